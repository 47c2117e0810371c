//! The stream of a page that is open: its parts that move, rendered again about once a second, and sent if they differ.

use std::collections::HashMap;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{Uri, header};
use tokio::time::sleep;
use tollgate::Stopwatch;
use tollgate_dashboard::Fragment;

use super::form;
use super::page_problem::PageProblem;
use super::pages::{gather, local_path};
use super::streams::{REFRESH_INTERVAL, StreamPlace};
use super::visit::Visit;
use crate::observe::audit_log::channel_body::{BodySender, pieces};

/// What a stream begins with: how long a browser waits before it connects again.
const BEGINNING: &str = "retry: 3000\n\n";

/// The event that tells a page that its session has ended, or that none of its parts moves: it does not connect again.
const END: &[u8] = b"event: end\ndata: nothing more is sent\n\n";

pub(super) async fn events(visit: Visit) -> Response {
    match subscribe(visit.clone()) {
        Ok(response) => response,
        Err(problem) => problem.respond(Some(&visit)),
    }
}

fn subscribe(visit: Visit) -> Result<Response, PageProblem> {
    let page = local_path(visit.parameter("page")).and_then(|path| path.parse::<Uri>().ok());
    let Some(uri) = page else {
        return Err(PageProblem::invalid("page: the path of the page whose parts are wanted"));
    };
    let place =
        visit.ui.streams.enter(visit.principal.name(), visit.principal.tenant().is_some())?;
    let query = form::pairs(uri.query().unwrap_or_default().as_bytes())?;
    let visit = Visit { uri, query, is_refresh: true, ..visit };
    let (sender, body) = pieces();
    tokio::spawn(follow(visit, sender, place));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// Sends what changes until the browser disconnects, the session ends or the server shuts down.
async fn follow(visit: Visit, sender: BodySender, place: StreamPlace) {
    let app = visit.ui.app.clone();
    let left = visit.session.end().since(visit.now());
    let ending = app.audit_log.events.ending();
    let is_over = tokio::select! {
        has_ended = send_changes(&visit, &sender) => has_ended,
        () = sender.closed() => false,
        () = app.until_invalid(&visit.principal) => true,
        () = sleep(left.into()) => true,
        () = ending.requested() => false,
    };
    if is_over {
        // The browser may be gone.
        let _ = sender.try_send(Ok(Bytes::from_static(END)));
    }
    drop(place);
}

/// Returns whether nothing more is to be sent; else the browser has disconnected.
async fn send_changes(visit: &Visit, sender: &BodySender) -> bool {
    let mut sent: HashMap<&'static str, String> = HashMap::new();
    let mut piece = Bytes::from_static(BEGINNING.as_bytes());
    while sender.send(Ok(piece)).await.is_ok() {
        piece = tokio::select! {
            changes = changes(visit, &mut sent) => match changes {
                Some(changes) => changes,
                None => return true,
            },
            () = sleep(visit.ui.streams.heartbeat) => Bytes::from_static(b":\n\n"),
        };
    }
    false
}

/// Renders until something differs from what was sent; `None` when the session is signed out or no part moves.
async fn changes(visit: &Visit, sent: &mut HashMap<&'static str, String>) -> Option<Bytes> {
    loop {
        if !sent.is_empty() {
            sleep(REFRESH_INTERVAL).await;
        }
        if visit.ui.sessions.is_signed_out(&visit.session) {
            return None;
        }
        let turn = visit.ui.streams.turn(visit.principal.tenant().is_some()).await?;
        let watch = Stopwatch::start();
        let rendered = fragments(visit).await;
        turn.end(watch.elapsed());
        let mut events = String::new();
        for fragment in rendered? {
            if sent.get(fragment.id) != Some(&fragment.html) {
                events.push_str(&fragment.to_event());
                sent.insert(fragment.id, fragment.html);
            }
        }
        if !events.is_empty() {
            return Some(events.into());
        }
        if sent.is_empty() {
            sleep(REFRESH_INTERVAL).await;
        }
    }
}

/// The parts of the page that move, as they are now; empty if they cannot be read, `None` if there are none.
async fn fragments(visit: &Visit) -> Option<Vec<Fragment>> {
    let (queue, own) = (visit.ui.app.queues.pages.clone(), visit.clone());
    let rendering = Box::pin(async move {
        match gather(&own).await {
            Ok((chrome, page)) => page.is_live(&chrome).then(|| page.fragments(&chrome)),
            Err(_) => Some(Vec::new()),
        }
    });
    queue.run(&visit.caller(), rendering).await.unwrap_or_else(|_| Some(Vec::new()))
}
