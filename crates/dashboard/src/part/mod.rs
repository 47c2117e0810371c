//! Parts that several pages have.

mod charts;
mod decisions;
mod forms;
mod sentence;
mod states;
mod tables;
mod texts;

pub(crate) use charts::{
    bar, course, course_legend, course_part, effect_course, latency, latency_legend, latency_part,
    spark,
};
pub(crate) use decisions::{DecisionColumns, decisions, outcome};
pub(crate) use forms::{
    Choice, Field, client_pairs, copyable, hidden, menu, menu_of, post, select,
};
pub(crate) use sentence::sentence;
pub(crate) use states::{caveat, diff, empty, failed, findings, severity_class};
pub(crate) use tables::{card, cut_off, fleet, paging, store_state, tabs, top_list};
pub(crate) use texts::{
    ago, by, client, client_by, identifier_links, identifiers, moment, name, of_nodes, range_words,
    rule, shadow_tag, t, tenant_tag, until,
};
