//! Every page as one value, its HTML, and the parts of it that move.

use maud::Markup;

use crate::model::{
    Audit, Chrome, Client, Clients, DeletedRule, EditedRule, ErrorPage, ExplainedDecision, Health,
    Keys, Lists, Live, Overview, Rules, Simulation, Tab, TryRequest,
};
use crate::{frame, view};

/// A page inside the frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Page {
    /// What happens now.
    Overview(Box<Overview>),
    /// The list of rules.
    Rules(Box<Rules>),
    /// One rule.
    Rule(Box<EditedRule>),
    /// A rule that was deleted.
    DeletedRule(Box<DeletedRule>),
    /// The search for clients.
    Clients(Box<Clients>),
    /// One client.
    Client(Box<Client>),
    /// Top lists and the tail of decisions.
    Live(Box<Live>),
    /// One decision of the past.
    Decision(Box<ExplainedDecision>),
    /// A request, explained.
    Try(Box<TryRequest>),
    /// A log, replayed.
    Simulate(Box<Simulation>),
    /// Changes and refusals.
    Audit(Box<Audit>),
    /// Bans and lists.
    Lists(Box<Lists>),
    /// API keys and tokens.
    Keys(Box<Keys>),
    /// Stores, catalog, nodes.
    Health(Box<Health>),
    /// A page in place of another one, which [`Chrome::tab`] names.
    Error(Box<ErrorPage>),
}

/// A part of a page that moves: the element of that id is replaced by the HTML, which has the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The id of the element.
    pub id: &'static str,
    /// The element as it is now.
    pub html: String,
}

impl Page {
    /// The whole page.
    #[must_use]
    pub fn html(&self, chrome: &Chrome) -> String {
        let head = self.head(chrome);
        let body = self.body(chrome);
        frame::page(chrome, &head, &body).into_string()
    }

    /// The parts that move. The server sends those that differ from what it sent before.
    #[must_use]
    pub fn fragments(&self, chrome: &Chrome) -> Vec<Fragment> {
        let mut parts: Vec<(&'static str, Markup)> = match self {
            Self::Overview(model) => view::overview::parts(chrome, model),
            Self::Rules(model) => view::rules::parts(chrome, model),
            Self::Rule(model) => view::rule::parts(chrome, model),
            Self::Client(model) => view::client::parts(chrome, model),
            Self::Live(model) => view::live::parts(chrome, model),
            Self::Health(model) => view::health::parts(chrome, model),
            _ => Vec::new(),
        };
        if self.is_live(chrome) {
            parts.push((frame::BANNERS, frame::banners(chrome)));
            parts.push((frame::STAMP, frame::stamp(chrome)));
        }
        parts.into_iter().map(|(id, html)| Fragment { id, html: html.into_string() }).collect()
    }

    /// Whether the page has parts that move, so that a stream for it makes sense.
    #[must_use]
    pub const fn is_live(&self, chrome: &Chrome) -> bool {
        let follows = !matches!(chrome.range.choice, crate::model::RangeChoice::Custom);
        match self {
            Self::Overview(_) | Self::Rules(_) | Self::Rule(_) | Self::Health(_) => follows,
            Self::Client(_) | Self::Live(_) => true,
            _ => false,
        }
    }

    fn head(&self, chrome: &Chrome) -> frame::Head {
        let (tab, title, about, has_range) = match self {
            Self::Overview(_) => (Tab::Overview, "Overview".to_owned(), frame::span(chrome), true),
            Self::Rules(model) => {
                (Tab::Rules, "Rules".to_owned(), view::rules::about(chrome, model), true)
            }
            Self::Rule(model) => (
                Tab::Rules,
                view::rule::title(model),
                view::rule::about(chrome, model),
                !model.is_new,
            ),
            Self::DeletedRule(model) => {
                (Tab::Rules, model.rule_id.clone(), view::deleted_rule::about(chrome, model), false)
            }
            Self::Clients(_) => (
                Tab::Clients,
                "Clients".to_owned(),
                "Search one: what applies to it, what is left, what happened".to_owned(),
                false,
            ),
            Self::Client(_) => (
                Tab::Clients,
                "Client".to_owned(),
                "What applies, what is left, what happened".to_owned(),
                false,
            ),
            Self::Live(_) => (Tab::Live, "Live".to_owned(), "Who is pushing now".to_owned(), false),
            Self::Decision(model) => {
                (Tab::Live, "Decision".to_owned(), view::decision::about(chrome, model), false)
            }
            Self::Try(_) => (
                Tab::Try,
                "Try".to_owned(),
                "Why a request passes or not, without charging it".to_owned(),
                false,
            ),
            Self::Simulate(_) => (
                Tab::Simulate,
                "Simulate".to_owned(),
                "An access log against rules: who would have been refused".to_owned(),
                false,
            ),
            Self::Audit(_) => (
                Tab::Audit,
                "Audit".to_owned(),
                "Who changed what, and who was refused".to_owned(),
                false,
            ),
            Self::Lists(_) => (
                Tab::Lists,
                "Bans and lists".to_owned(),
                "Clients that are refused, never limited, or have other limits".to_owned(),
                false,
            ),
            Self::Keys(_) => (
                Tab::Keys,
                "Keys and tokens".to_owned(),
                "API keys identify clients; tokens open this server".to_owned(),
                false,
            ),
            Self::Health(_) => (
                Tab::Health,
                "Health".to_owned(),
                "What works, and what happens if it does not".to_owned(),
                true,
            ),
            Self::Error(model) => (chrome.tab, model.title.clone(), String::new(), false),
        };
        frame::Head { tab, title, about, has_range, is_live: self.is_live(chrome) }
    }

    fn body(&self, chrome: &Chrome) -> Markup {
        match self {
            Self::Overview(model) => view::overview::body(chrome, model),
            Self::Rules(model) => view::rules::body(chrome, model),
            Self::Rule(model) => view::rule::body(chrome, model),
            Self::DeletedRule(model) => view::deleted_rule::body(chrome, model),
            Self::Clients(model) => view::clients::body(chrome, model),
            Self::Client(model) => view::client::body(chrome, model),
            Self::Live(model) => view::live::body(chrome, model),
            Self::Decision(model) => view::decision::body(chrome, model),
            Self::Try(model) => view::try_request::body(chrome, model),
            Self::Simulate(model) => view::simulate::body(chrome, model),
            Self::Audit(model) => view::audit::body(chrome, model),
            Self::Lists(model) => view::lists::body(chrome, model),
            Self::Keys(model) => view::keys::body(chrome, model),
            Self::Health(model) => view::health::body(chrome, model),
            Self::Error(model) => view::error::body(chrome, model),
        }
    }
}

impl Fragment {
    /// The event of a `text/event-stream` that carries it: its id in the first line of data, its HTML in the second.
    #[must_use]
    pub fn to_event(&self) -> String {
        // Line breaks end a line of an event; as references they mean the same in HTML.
        let html = self.html.replace('\r', "&#13;").replace('\n', "&#10;");
        format!("event: fragment\ndata: {}\ndata: {html}\n\n", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_no_line_break_inside() {
        let fragment = Fragment { id: "tail", html: "<p>a\r\nb\nc</p>".to_owned() };
        assert_eq!(
            fragment.to_event(),
            "event: fragment\ndata: tail\ndata: <p>a&#13;&#10;b&#10;c</p>\n\n"
        );
    }
}
