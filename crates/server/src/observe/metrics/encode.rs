//! Writes figures as metrics: a counter, counters by outcome, a histogram.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tollgate::store::HistogramSnapshot;

pub(super) fn by_outcome(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    outcomes: &[(&'static str, u64)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (outcome, count) in outcomes {
        write_counter(metric.encode_family(&[("outcome", *outcome)])?, *count)?;
    }
    Ok(())
}

pub(super) fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    count: u64,
) -> fmt::Result {
    write_counter(encoder.encode_descriptor(name, help, None, MetricType::Counter)?, count)
}

pub(super) fn write_counter(mut metric: MetricEncoder<'_>, count: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, _, u64>(&count, None)
}

pub(super) fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    reading: &HistogramSnapshot,
) -> fmt::Result {
    write_histogram(encoder.encode_descriptor(name, help, None, MetricType::Histogram)?, reading)
}

pub(super) fn write_histogram(
    mut metric: MetricEncoder<'_>,
    reading: &HistogramSnapshot,
) -> fmt::Result {
    metric.encode_histogram::<NoLabelSet>(reading.sum, reading.count, &reading.buckets, None)
}
