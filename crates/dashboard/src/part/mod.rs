//! Parts that several pages have.

mod charts;
mod decisions;
mod forms;
mod states;
mod tables;
mod texts;

pub(crate) use charts::{
    bar, course, course_legend, course_part, effect_course, latency, latency_legend, latency_part,
    spark,
};
pub(crate) use decisions::{DecisionColumns, decisions, outcome};
pub(crate) use forms::{Field, client_pairs, copyable, hidden, menu, post, select};
pub(crate) use states::{caveat, diff, empty, failed, findings, severity_class};
pub(crate) use tables::{breaker, card, fleet, paging, tabs, top_list};
pub(crate) use texts::{
    ago, by, client, client_by, identifiers, moment, rule, shadow_tag, t, tenant_tag, until,
};
