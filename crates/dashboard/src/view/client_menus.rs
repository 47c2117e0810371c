//! What can be done to a client: another limit for a while, a tier, a reset, a place on the deny list. A form with a
//! mistake is open, with what was entered.

use maud::{Markup, html};

use super::client::TERMS;
use crate::model::{Chrome, Client, ClientMenu, ClientMistake, Identifier};
use crate::part::{Field, client_pairs, hidden, menu_of, post, select, t};
use crate::path;

/// What was entered in a menu before, if it had a mistake.
#[derive(Clone, Copy)]
struct Entered<'a>(Option<&'a ClientMistake>);

impl<'a> Entered<'a> {
    fn of(model: &'a Client, menu: ClientMenu) -> Self {
        Self(model.mistake.as_ref().filter(|it| it.menu == menu))
    }

    const fn is_open(self) -> bool {
        self.0.is_some()
    }

    fn or(self, name: &str, default: &'a str) -> &'a str {
        let entered = self.0.and_then(|it| it.entered.iter().find(|(field, _)| field == name));
        entered.map_or(default, |(_, text)| text)
    }

    fn client(self, default: &'a [Identifier]) -> &'a [Identifier] {
        self.0.map_or(default, |it| it.client.as_slice())
    }

    fn problem(self) -> Markup {
        html! { @if let Some(mistake) = self.0 { div.notice.bad { (t(&mistake.text)) } } }
    }
}

/// The rules that the client has a limit of, which can have another one. Candidates have none.
fn own_rules(model: &Client) -> Vec<(&str, &str)> {
    let own = model.limits.iter().filter(|it| it.with.is_empty() && it.candidate_of.is_none());
    own.map(|it| (it.rule_id.as_str(), it.rule_id.as_str())).collect()
}

/// Another limit for the client under a rule.
pub(crate) fn override_limit(chrome: &Chrome, model: &Client, here: &str) -> Markup {
    let entered = Entered::of(model, ClientMenu::Override);
    let rules = own_rules(model);
    let first = rules.first().map_or("", |(id, _)| id);
    let rule = html! {
        @if rules.is_empty() {
            (Field { label: "Rule", name: "rule_id", value: entered.or("rule_id", ""), is_required: true, ..Field::default() }.html())
        } @else {
            (select("Rule", "rule_id", &rules, entered.or("rule_id", first)))
        }
    };
    let client = entered.client(&model.identifiers);
    let fields = override_fields(entered, client, &rule);
    let form = post(chrome, path::CLIENT_OVERRIDE, Some(here), &fields);
    menu_of("Override", "", entered.is_open(), &form)
}

/// Another limit under one rule, for what it counts by.
pub(crate) fn override_of(
    chrome: &Chrome,
    here: &str,
    rule_id: &str,
    client: &[Identifier],
) -> Markup {
    let rule = html! { (hidden("rule_id", rule_id)) };
    let fields = override_fields(Entered(None), client, &rule);
    menu_of("Override", "", false, &post(chrome, path::CLIENT_OVERRIDE, Some(here), &fields))
}

/// Twice the limit under one rule for four hours, in one click.
pub(crate) fn double(chrome: &Chrome, here: &str, rule_id: &str, client: &[Identifier]) -> Markup {
    let fields = html! {
        (client_pairs(client))
        (hidden("rule_id", rule_id))
        (hidden("multiplier", "2"))
        (hidden("minutes", "240"))
        button.small type="submit" { "Double for 4 h" span.hidden-text { " under " (t(rule_id)) } }
    };
    post(chrome, path::CLIENT_OVERRIDE, Some(here), &fields)
}

fn override_fields(entered: Entered<'_>, client: &[Identifier], rule: &Markup) -> Markup {
    html! {
        (entered.problem())
        (client_pairs(client))
        p.dim { "For " @for (at, part) in client.iter().enumerate() { @if at > 0 { ", " } (t(&part.identifier_type)) " " (t(&part.value)) } }
        (rule)
        (Field { label: "Limit", name: "limit", kind: "number", value: entered.or("limit", ""), hint: "or times the limit below", ..Field::default() }.html())
        (Field { label: "Times the limit", name: "multiplier", value: entered.or("multiplier", ""), placeholder: "2", ..Field::default() }.html())
        (select("Ends after", "minutes", &TERMS, entered.or("minutes", "240")))
        button.primary type="submit" { "Override" }
    }
}

/// The tier of the client.
pub(crate) fn tier(chrome: &Chrome, model: &Client, here: &str) -> Markup {
    let entered = Entered::of(model, ClientMenu::Tier);
    let tiers = model.tiers.iter().map(|it| (it.as_str(), it.as_str()));
    let tiers: Vec<(&str, &str)> =
        [("", "none: as the rules say")].into_iter().chain(tiers).collect();
    let assigned = model.tier.as_ref().filter(|tier| tier.is_assigned);
    let fields = html! {
        (entered.problem())
        (client_pairs(entered.client(&model.identifiers)))
        (select("Tier", "tier", &tiers, entered.or("tier", assigned.map_or("", |tier| &tier.name))))
        button.primary type="submit" { "Change the tier" }
    };
    let form = post(chrome, path::CLIENT_TIER, Some(here), &fields);
    menu_of("Tier", "", entered.is_open(), &form)
}

/// Counters that start anew.
pub(crate) fn reset(chrome: &Chrome, model: &Client, here: &str) -> Markup {
    let entered = Entered::of(model, ClientMenu::Reset);
    let rules: Vec<(&str, &str)> =
        [("", "all rules that apply")].into_iter().chain(own_rules(model)).collect();
    let fields = html! {
        (entered.problem())
        (client_pairs(entered.client(&model.identifiers)))
        (select("Rule", "rule_id", &rules, entered.or("rule_id", "")))
        p.dim { "The counters start anew; requests that were refused pass again." }
        button.primary type="submit" { "Reset" }
    };
    let form = post(chrome, path::CLIENT_RESET, Some(here), &fields);
    menu_of("Reset", "", entered.is_open(), &form)
}

/// A place on the deny list.
pub(crate) fn deny(chrome: &Chrome, model: &Client, here: &str) -> Markup {
    let entered = Entered::of(model, ClientMenu::Deny);
    let fields = html! {
        (entered.problem())
        (client_pairs(entered.client(&model.identifiers)))
        (Field { label: "Reason", name: "reason", value: entered.or("reason", ""), placeholder: "why", ..Field::default() }.html())
        (select("Ends after", "minutes", &TERMS, entered.or("minutes", "60")))
        p.dim { "Every request of it is refused, on all nodes: it is put on the deny list. Bans are made by rules." }
        button.danger type="submit" { "Deny" }
    };
    let form = post(chrome, path::CLIENT_BAN, Some(here), &fields);
    menu_of("Deny", "danger", entered.is_open(), &form)
}
