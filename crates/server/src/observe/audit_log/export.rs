//! A whole log as JSON lines: read page by page while it is sent, so that it takes no more memory than
//! a page.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, StatusCode, header};
use tokio::sync::Semaphore;
use tollgate_catalog::CatalogError;

use super::log::{Log, Page};
use super::pieces::{Pieces, pieces};
use crate::admin::refusal;
use crate::edge::http::problem::Problem;

/// How many are sent at once.
const EXPORTS: usize = 8;
/// How many records are read at a time.
const PAGE: usize = 500;

/// The exports that are being sent.
#[derive(Debug)]
pub(crate) struct Exports {
    places: Arc<Semaphore>,
}

impl Default for Exports {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(EXPORTS)) }
    }
}

impl Exports {
    /// A body with all records that are wanted, or so many of them.
    pub(crate) async fn begin(&self, mut log: Log, most: usize) -> Result<Body, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| no_place())?;
        // Here, so that a log that cannot be read is told as such.
        let first = log.page(most.min(PAGE)).await.map_err(|error| refusal(&error))?;
        let (pieces, body) = pieces();
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = send(&mut log, first, &pieces, most).await {
                tracing::warn!("an export was cut short: {error}");
                // The client may be gone as well.
                let _ = pieces.send(Err(io::Error::other("the log cannot be read"))).await;
            }
        });
        Ok(body)
    }
}

async fn send(
    log: &mut Log,
    mut page: Page,
    pieces: &Pieces,
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
    let detail = format!("{EXPORTS} exports are being sent already; wait for one to end");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_exports", detail)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("10"))
}
