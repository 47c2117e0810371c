//! Who is pushing now: four rankings and the tail of decisions.

use maud::{Markup, html};

use crate::model::{Chrome, Live, Outcome, TailFilter, TopList};
use crate::part::{
    DecisionColumns, Field, caveat, decisions, empty, hidden, of_nodes, select, top_list,
};
use crate::{format, path};

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Live) -> Markup {
    let window = model.window_seconds.to_string();
    html! {
        nav.seg.windows aria-label="Window of the top lists" {
            @for seconds in &model.windows {
                a href=(address(model, *seconds)) aria-current=[(*seconds == model.window_seconds).then_some("true")] {
                    (format::duration(seconds.saturating_mul(1_000)))
                }
            }
        }
        (lists(model))
        section.card {
            h2 {
                "Decisions"
                (tail_of(model))
                button.small type="button" data-pause hidden aria-pressed="false" { "Pause" }
            }
            form.filters method="get" action=(path::LIVE) {
                (hidden("window", &window))
                (Field { label: "Client", name: "client", value: &model.filter.client, ..Field::default() }.html())
                (Field { label: "Rule", name: "rule_id", value: &model.filter.rule_id, ..Field::default() }.html())
                (Field { label: "Endpoint", name: "endpoint", value: &model.filter.endpoint, placeholder: "/api", ..Field::default() }.html())
                (select("Outcome", "outcome", &outcomes(), model.filter.outcome.map_or("", Outcome::word)))
                button type="submit" { "Filter" }
                a.button.ghost href=(path::LIVE) { "All" }
            }
            (tail(chrome, model))
        }
    }
}

/// The parts that move.
pub(crate) fn parts(chrome: &Chrome, model: &Live) -> Vec<(&'static str, Markup)> {
    vec![("lists", lists(model)), ("tail-of", tail_of(model)), ("tail", tail(chrome, model))]
}

/// The outcomes that can be filtered by.
pub(crate) fn outcomes() -> Vec<(&'static str, &'static str)> {
    let words = Outcome::ALL.map(|outcome| match outcome {
        Outcome::WouldRefuse => (outcome.word(), "would refuse"),
        outcome => (outcome.word(), outcome.word()),
    });
    [("", "any")].into_iter().chain(words).collect()
}

fn address(model: &Live, seconds: u64) -> String {
    let filter = &model.filter;
    let fields = [
        ("window", seconds.to_string()),
        ("client", filter.client.clone()),
        ("rule_id", filter.rule_id.clone()),
        ("endpoint", filter.endpoint.clone()),
        ("outcome", filter.outcome.map_or_else(String::new, |it| it.word().to_owned())),
    ];
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    path::with_query(path::LIVE, &fields)
}

fn lists(model: &Live) -> Markup {
    let window = format::duration(model.window_seconds.saturating_mul(1_000));
    let of = html! { (of_nodes(&model.of)) ", in the last " (window) };
    html! {
        div #lists .two {
            (list(&of, "Most refused", &model.refused, "k-ref", "No client was refused."))
            (list(&of, "Near a limit", &model.near_limit, "k-thr", "No client is close to a limit."))
            (list(&of, "Busiest", &model.busiest, "k-allowed", "No requests."))
            (list(&of, "Shadow rules would refuse", &model.would_refuse, "k-thr", "Shadow rules and candidates would refuse no client."))
        }
    }
}

fn list(of: &Markup, title: &str, list: &TopList, class: &str, nothing: &str) -> Markup {
    html! {
        section.card {
            h2 {
                (title)
                span.legend { span { (of) } }
                @if list.may_lack > 0 {
                    span.legend title="Counts are kept in fixed memory" { "counts may lack up to " (format::count(list.may_lack)) }
                }
            }
            @if list.rows.is_empty() { p.dim.nothing { (nothing) } } @else { (top_list(&list.rows, class)) }
        }
    }
}

fn tail_of(model: &Live) -> Markup {
    html! { span #tail-of .legend { "the last ones of " (of_nodes(&model.tail_of)) } }
}

fn tail(chrome: &Chrome, model: &Live) -> Markup {
    html! {
        div #tail data-pausable="" {
            @if model.tail.is_empty() && model.filter == TailFilter::default() {
                (empty("No decisions yet.", &html! { "New ones appear here by themselves." }))
            } @else if model.tail.is_empty() {
                (empty("No decisions that fit.", &html! {
                    "New ones appear here by themselves. " a href=(path::LIVE) { "Remove the filters" }
                }))
            } @else {
                (decisions(&model.tail, DecisionColumns::All, chrome.now))
            }
            (caveat(model.caveat.as_deref()))
        }
    }
}
