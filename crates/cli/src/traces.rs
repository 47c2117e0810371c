//! Sends traces to a collector in the background. Requests never wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanData};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tollgate_server::settings::Otlp;
use tracing::{info, warn};

use crate::failure::Failure;

/// How long the collector may take for a batch of spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last spans may take when the server ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Spans on their way to a collector. At most 2,048 wait; what comes then is dropped.
pub(crate) struct SpanPipeline {
    provider: SdkTracerProvider,
}

impl SpanPipeline {
    /// Begins to send spans, if the settings say where. Needs a runtime, and does not wait for the
    /// collector.
    pub(crate) fn start(settings: &Otlp) -> Result<Option<Self>, Failure> {
        let Some(endpoint) = &settings.endpoint else { return Ok(None) };
        let refused = |error| Failure::usage(format!("otlp.endpoint: {error}"));
        let mut exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint.as_str())
            .with_timeout(EXPORT_TIMEOUT);
        if endpoint.starts_with("https:") {
            exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
        }
        let exporter = Watched {
            exporter: exporter.build().map_err(refused)?,
            endpoint: endpoint.clone(),
            runtime: Handle::current(),
            is_failing: AtomicBool::new(false),
        };
        let name = settings.service_name.clone();
        let provider = SdkTracerProvider::builder()
            .with_resource(Resource::builder().with_service_name(name).build())
            .with_sampler(Sampler::parent_based(Sampler::TraceIdRatioBased(settings.sample)))
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider }))
    }

    pub(crate) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("tollgate")
    }

    /// Sends what is left, if that does not take long.
    pub(crate) async fn end(&self) {
        let provider = self.provider.clone();
        // It blocks, and needs the runtime meanwhile.
        let ended = spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT)).await;
        if !matches!(ended, Ok(Ok(()))) {
            warn!("the last traces could not be sent");
        }
    }

    /// Drops the spans that are left.
    pub(crate) fn abandon(&self) {
        // It reports that some spans were not sent, which is expected here.
        let _ = self.provider.shutdown_with_timeout(Duration::ZERO);
    }
}

/// Says when spans can no longer be sent, and when they can again.
#[derive(Debug)]
struct Watched {
    exporter: SpanExporter,
    endpoint: String,
    runtime: Handle,
    is_failing: AtomicBool,
}

impl Watched {
    fn report(&self, result: &OTelSdkResult) {
        let was_failing = self.is_failing.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Ok(()) if was_failing => info!("traces are sent to {} again", self.endpoint),
            Err(error) if !was_failing => {
                let reason = match error {
                    OTelSdkError::InternalFailure(reason) => reason.clone(),
                    OTelSdkError::Timeout(_) | OTelSdkError::AlreadyShutdown => error.to_string(),
                };
                warn!("traces cannot be sent to {} and are dropped: {reason}", self.endpoint);
            }
            _ => {}
        }
    }
}

impl opentelemetry_sdk::trace::SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        // A thread without a runtime waits here. The exporter's own timeout begins when it is
        // connected, which may be never.
        let sent = {
            let _runtime = self.runtime.enter();
            timeout(EXPORT_TIMEOUT, self.exporter.export(batch))
        };
        let result = sent.await.unwrap_or(Err(OTelSdkError::Timeout(EXPORT_TIMEOUT)));
        self.report(&result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
