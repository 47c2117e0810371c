//! Metrics of the servers of a shared store: Redis, or PostgreSQL.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use tollgate::store::{BreakerState, RemoteStatus};

use super::encode::{write_counter, write_histogram};

/// A figure of a server.
type Figure = (&'static str, &'static str, MetricType, fn(&RemoteStatus) -> Option<f64>);

const FIGURES: [Figure; 4] = [
    (
        "store_up",
        "1 if the circuit breaker of the server is closed.",
        MetricType::Gauge,
        |server| Some(f64::from(u8::from(server.breaker == BreakerState::Closed))),
    ),
    (
        "store_clock_drift_seconds",
        "How far the clock of the server is ahead of this node's.",
        MetricType::Gauge,
        |server| server.drift_seconds,
    ),
    (
        "store_calls",
        "Calls to the server, each of which may carry several checks.",
        MetricType::Counter,
        |server| Some(server.calls as f64),
    ),
    (
        "store_breaker_opened",
        "Times the circuit breaker of the server opened.",
        MetricType::Counter,
        |server| Some(server.openings as f64),
    ),
];

/// Writes the metrics of all servers.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, servers: &[RemoteStatus]) -> fmt::Result {
    for (name, help, kind, figure) in FIGURES {
        let is_counter = matches!(kind, MetricType::Counter);
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for server in servers {
            let Some(value) = figure(server) else { continue };
            let labels = [("server", &*server.server)];
            let mut metric = metric.encode_family(&labels)?;
            if is_counter {
                write_counter(metric, value as u64)?;
            } else {
                metric.encode_gauge(&value)?;
            }
        }
    }
    let help = "How long calls to the server take, timeouts included.";
    let mut metric =
        encoder.encode_descriptor("store_request_seconds", help, None, MetricType::Histogram)?;
    for server in servers {
        let labels = [("server", &*server.server)];
        write_histogram(metric.encode_family(&labels)?, &server.latency)?;
    }
    let help = "Checks that failed on the server, by kind of error.";
    let mut metric = encoder.encode_descriptor("store_errors", help, None, MetricType::Counter)?;
    for server in servers {
        for (kind, count) in server.errors {
            let labels = [("server", &*server.server), ("kind", kind)];
            write_counter(metric.encode_family(&labels)?, count)?;
        }
    }
    Ok(())
}
