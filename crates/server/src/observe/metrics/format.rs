//! The two formats of `/metrics`, and how a client selects one.
//!
//! The library writes `OpenMetrics`. Tools of the older text format do not read it: they know no type
//! `info`, and the name of a counter's family ends in `_total` there.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::{HeaderMap, header};

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    /// The text format of Prometheus, version 0.0.4. Every tool reads it.
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// The format that the `Accept` header asks for: `OpenMetrics` only if it is named there, and text
    /// is not preferred.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let (mut open_metrics, mut text) = (0.0, 0.0);
        let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
        for range in lines.flat_map(|line| line.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let mut weight = 1.0_f32;
            let mut is_known = true;
            for (parameter, value) in parts.filter_map(|part| part.split_once('=')) {
                match parameter.trim().to_ascii_lowercase().as_str() {
                    "q" => weight = value.trim().parse().unwrap_or(0.0),
                    "version" => is_known = ["1.0.0", "0.0.1", "0.0.4"].contains(&value.trim()),
                    _ => {}
                }
            }
            match &*name {
                "application/openmetrics-text" if is_known => {
                    open_metrics = weight.max(open_metrics);
                }
                "text/plain" if is_known => text = weight.max(text),
                _ => {}
            }
        }
        if open_metrics > 0.0 && open_metrics >= text { Self::OpenMetrics } else { Self::Text }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes `OpenMetrics` text in this format.
    pub(crate) fn of_open_metrics(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Text => to_text(&text),
        }
    }
}

/// In `OpenMetrics` a family is announced by two lines: its help, then its type.
fn to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(announced) = line.strip_prefix("# HELP ") {
            help = announced.split_once(' ').map(|(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|family| family.split_once(' '))
        {
            let (name, kind): (Cow<'_, str>, _) = match kind {
                "counter" => (format!("{name}_total").into(), kind),
                "info" => (format!("{name}_info").into(), "gauge"),
                "unknown" => (name.into(), "untyped"),
                _ => (name.into(), kind),
            };
            // Writing to a string cannot fail.
            if let Some(help) = help.take() {
                let _ = writeln!(text, "# HELP {name} {help}");
            }
            let _ = writeln!(text, "# TYPE {name} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_sent_only_if_accept_names_it() {
        let check = |lines: &[&'static str], expected: MetricsFormat| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::ACCEPT, line.parse().expect("a header value"));
            }
            assert_eq!(MetricsFormat::of(&headers), expected, "{lines:?}");
        };
        check(&[], MetricsFormat::Text);
        check(&["*/*"], MetricsFormat::Text);
        check(&["text/plain"], MetricsFormat::Text);
        check(&["application/json"], MetricsFormat::Text);
        check(&["application/openmetrics-text"], MetricsFormat::OpenMetrics);
        check(&["application/openmetrics-text; q=0"], MetricsFormat::Text);
        check(&["application/openmetrics-text;version=2.0.0"], MetricsFormat::Text);
        // What Prometheus 2.42 and 3 send.
        let prometheus = "application/openmetrics-text;version=1.0.0,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        check(&[prometheus], MetricsFormat::OpenMetrics);
        let text_first =
            "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.9";
        check(&[text_first], MetricsFormat::Text);
        check(&["text/plain;q=0.5", "Application/OpenMetrics-Text"], MetricsFormat::OpenMetrics);
    }

    #[test]
    fn the_text_format_names_families_as_their_samples() {
        let open_metrics = "# HELP a Counts.\n# TYPE a counter\na_total{x=\"# EOF\"} 1\n\
            # HELP b The program.\n# TYPE b info\nb_info{version=\"1\"} 1\n\
            # HELP c A gauge.\n# TYPE c gauge\nc 0.5\n# EOF\n";
        let expected = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{x=\"# EOF\"} 1\n\
            # HELP b_info The program.\n# TYPE b_info gauge\nb_info{version=\"1\"} 1\n\
            # HELP c A gauge.\n# TYPE c gauge\nc 0.5\n";
        assert_eq!(MetricsFormat::Text.of_open_metrics(open_metrics.to_owned()), expected);
        assert_eq!(
            MetricsFormat::OpenMetrics.of_open_metrics(open_metrics.to_owned()),
            open_metrics
        );
    }
}
