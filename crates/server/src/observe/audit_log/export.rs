//! Exports a whole log as JSON lines: read page by page while it is sent, so that it takes the memory of
//! one page.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, StatusCode, header};
use tokio::sync::Semaphore;
use tollgate_catalog::CatalogError;

use super::channel_body::{BodySender, pieces};
use super::log::{AuditPage, Log};
use crate::admin::refusal;
use crate::edge::http::problem::Problem;

/// How many exports may run at the same time.
const MAX_EXPORTS: usize = 8;
/// How many records are read at a time.
const PAGE: usize = 500;

/// The exports that are running.
#[derive(Debug)]
pub(crate) struct Exports {
    places: Arc<Semaphore>,
}

impl Default for Exports {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_EXPORTS)) }
    }
}

impl Exports {
    /// A body with all records of the query, at most `most`.
    pub(crate) async fn begin(&self, mut log: Log, most: usize) -> Result<Body, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| no_place())?;
        // The first page is read here, so that an unreadable log has an error response.
        let first = log.page(most.min(PAGE)).await.map_err(|error| refusal(&error))?;
        let (pieces, body) = pieces();
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = send(&mut log, first, &pieces, most).await {
                tracing::warn!("an export was cut short: {error}");
                // The client may have disconnected as well.
                let _ = pieces.send(Err(io::Error::other("the log cannot be read"))).await;
            }
        });
        Ok(body)
    }
}

async fn send(
    log: &mut Log,
    mut page: AuditPage,
    pieces: &BodySender,
    most: usize,
) -> Result<(), CatalogError> {
    let mut left = most;
    loop {
        left = left.saturating_sub(page.records.len());
        let mut lines = Vec::new();
        for record in &page.records {
            lines.extend_from_slice(record.get().as_bytes());
            lines.push(b'\n');
        }
        let is_sent = lines.is_empty() || pieces.send(Ok(lines.into())).await.is_ok();
        if page.next.is_none() || left == 0 || !is_sent {
            return Ok(());
        }
        page = log.page(left.min(PAGE)).await?;
    }
}

fn no_place() -> Problem {
    let detail = format!("{MAX_EXPORTS} exports are being sent already; wait for one to end");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_exports", detail)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("10"))
}
