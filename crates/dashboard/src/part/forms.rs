//! Forms: every one that posts has the CSRF token, and every field its label.

use maud::{Markup, html};

use super::texts::t;
use crate::model::{Chrome, Identifier};

/// A form that posts, with the token and the page to show afterwards.
pub(crate) fn post(chrome: &Chrome, action: &str, next: Option<&str>, body: &Markup) -> Markup {
    html! {
        form method="post" action=(action) {
            input type="hidden" name="csrf" value=(chrome.csrf);
            @if let Some(next) = next { input type="hidden" name="next" value=(next); }
            (body)
        }
    }
}

/// A value that a form posts without showing it.
pub(crate) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// The identifiers of a client, as forms post them.
pub(crate) fn client_pairs(identifiers: &[Identifier]) -> Markup {
    html! {
        @for part in identifiers {
            (hidden("type", &part.identifier_type))
            (hidden("value", &part.value))
        }
    }
}

/// A text field with its label.
#[derive(Clone, Copy, Default)]
pub(crate) struct Field<'a> {
    /// What it is called on the page.
    pub(crate) label: &'a str,
    /// What it is called in the form.
    pub(crate) name: &'a str,
    /// What is in it.
    pub(crate) value: &'a str,
    /// What stands below it.
    pub(crate) hint: &'a str,
    /// What stands in it while it is empty.
    pub(crate) placeholder: &'a str,
    /// The kind of input; `text` if empty, also `number`.
    pub(crate) kind: &'a str,
    /// The id of a list of suggestions.
    pub(crate) list: &'a str,
    /// Whether a form without it is not sent.
    pub(crate) is_required: bool,
    /// Whether it takes two columns.
    pub(crate) is_wide: bool,
    /// Whether it has several lines.
    pub(crate) is_multiline: bool,
    /// Whether it cannot be changed.
    pub(crate) is_fixed: bool,
    /// What is wrong with what is in it; empty if nothing is known to be.
    pub(crate) problem: &'a str,
}

impl Field<'_> {
    /// The field as HTML.
    pub(crate) fn html(&self) -> Markup {
        // A browser forgets what is no number, so numbers are texts that telephones show digits for.
        let is_number = self.kind == "number";
        let kind = if self.kind.is_empty() || is_number { "text" } else { self.kind };
        let is_wrong = (!self.problem.is_empty()).then_some("true");
        let problem_id = format!("problem-{}", self.name);
        let described = is_wrong.map(|_| problem_id.as_str());
        let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        html! {
            label.grow[self.is_wide] {
                span { (self.label) @if self.is_required { span.dim { " · required" } } }
                @if self.is_multiline {
                    textarea name=(self.name) rows="2" spellcheck="false" placeholder=[filled(self.placeholder)]
                        required[self.is_required] readonly[self.is_fixed] aria-invalid=[is_wrong] aria-describedby=[described] { (self.value) }
                } @else {
                    input type=(kind) inputmode=[is_number.then_some("decimal")] name=(self.name) value=(self.value) list=[filled(self.list)]
                        placeholder=[filled(self.placeholder)] autocomplete="off" spellcheck="false"
                        required[self.is_required] readonly[self.is_fixed] aria-invalid=[is_wrong] aria-describedby=[described];
                }
                @if is_wrong.is_some() { small.problem id=(problem_id) { (t(self.problem)) } }
                @if !self.hint.is_empty() { small { (self.hint) } }
            }
        }
    }
}

/// A choice with its label. A value that is not among the options is added, so that nothing is changed by looking.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    /// What it is called on the page.
    pub(crate) label: &'a str,
    /// What it is called in the form.
    pub(crate) name: &'a str,
    /// The values, each with its text.
    pub(crate) options: &'a [(&'a str, &'a str)],
    /// The chosen value.
    pub(crate) value: &'a str,
    /// Whether a form without it is not sent.
    pub(crate) is_required: bool,
    /// Whether it cannot be changed.
    pub(crate) is_fixed: bool,
}

impl Choice<'_> {
    /// The choice as HTML.
    pub(crate) fn html(&self) -> Markup {
        let Self { label, name, options, value, is_required, is_fixed } = *self;
        let is_known = options.iter().any(|(option, _)| *option == value);
        html! {
            label {
                span { (label) @if is_required { span.dim { " · required" } } }
                select name=(name) required[is_required] disabled[is_fixed] {
                    @if !is_known { option value=(value) selected { (t(value)) } }
                    @for (option, text) in options {
                        option value=(option) selected[*option == value] { (t(text)) }
                    }
                }
            }
        }
    }
}

/// A choice that can be made.
pub(crate) fn select(label: &str, name: &str, options: &[(&str, &str)], value: &str) -> Markup {
    Choice { label, name, options, value, is_required: false, is_fixed: false }.html()
}

/// A button that opens a form.
pub(crate) fn menu(button: &str, class: &str, body: &Markup) -> Markup {
    menu_of(button, class, false, body)
}

/// A button that opens a form, which may be open already.
pub(crate) fn menu_of(button: &str, class: &str, is_open: bool, body: &Markup) -> Markup {
    html! {
        details.menu open[is_open] {
            summary.button.(class) { (button) "…" }
            div.panel { (body) }
        }
    }
}

/// A text to copy, with a button that the script shows.
pub(crate) fn copyable(id: &str, text: &str, label: &str) -> Markup {
    html! {
        div.copyable {
            pre.code id=(id) tabindex="0" aria-label=(label) { (t(text)) }
            button.copy type="button" data-copy=(id) hidden { "Copy" }
        }
    }
}
