//! The frame of every page: navigation, search, banners, the range of time, and who is signed in.

use maud::{DOCTYPE, Markup, html};

use crate::model::{Banner, Chrome, RangeChoice, Tab};
use crate::part::{moment, post, severity_class, t};
use crate::{asset, format, path};

/// The id of the banners.
pub(crate) const BANNERS: &str = "banners";
/// The id of the moment that a page was made at.
pub(crate) const STAMP: &str = "stamp";

const TABS: [(Tab, &str, &str); 10] = [
    (Tab::Overview, "Overview", path::OVERVIEW),
    (Tab::Rules, "Rules", path::RULES),
    (Tab::Clients, "Clients", path::CLIENTS),
    (Tab::Live, "Live", path::LIVE),
    (Tab::Try, "Try", path::TRY),
    (Tab::Simulate, "Simulate", path::SIMULATE),
    (Tab::Audit, "Audit", path::AUDIT),
    (Tab::Lists, "Bans and lists", path::LISTS),
    (Tab::Keys, "Keys and tokens", path::KEYS),
    (Tab::Health, "Health", path::HEALTH),
];

/// What a page says about itself.
pub(crate) struct Head {
    pub(crate) tab: Tab,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) has_range: bool,
    pub(crate) is_live: bool,
}

/// A whole page.
pub(crate) fn page(chrome: &Chrome, head: &Head, body: &Markup) -> Markup {
    let is_overview = head.tab == Tab::Overview;
    document(
        &head.title,
        head.is_live.then_some(path::EVENTS),
        &html! {
            a.skip href="#main" { "Skip to the content" }
            div.shell {
                (navigation(chrome, head.tab))
                main #main tabindex="-1" {
                    header {
                        div {
                            h1 { (t(&head.title)) }
                            @if !head.about.is_empty() { p.dim { (t(&head.about)) } }
                        }
                        div.tools {
                            span.live #live data-live=[head.is_live.then_some("")] {
                                i aria-hidden="true" {} span.state { "as of" } " " (stamp(chrome))
                            }
                            @if head.has_range { (range(chrome)) }
                        }
                    }
                    (banners(chrome))
                    @if let Some(notice) = &chrome.notice {
                        div.notice.(severity_class(notice.severity)) role="status" {
                            (t(&notice.text))
                            @if let Some((text, address)) = &notice.link {
                                " " a href=(address) { (t(text)) }
                            }
                        }
                    }
                    @if let (Some(why), false) = (&chrome.read_only, is_overview) {
                        p.read-only { b { "Read only." } " " (t(why)) }
                    }
                    (body)
                }
            }
            p #announce .hidden-text aria-live="polite" {}
        },
    )
}

/// The parts of an HTML document around its body.
pub(crate) fn document(title: &str, events: Option<&str>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (t(title)) " · Tollgate" }
                link rel="icon" href=(asset::ICON.path()) type="image/svg+xml";
                link rel="stylesheet" href=(asset::STYLE.path());
                script type="module" src=(asset::SCRIPT.path()) {}
            }
            body data-events=[events] { (body) }
        }
    }
}

/// The name of the product with its sign.
pub(crate) fn brand() -> Markup {
    html! {
        svg viewBox="0 0 24 24" aria-hidden="true" {
            path d="M4 20V6h3v14M17 20V6h3v14M7 9h10l-1.5 3H8.5z" {}
        }
        "Tollgate"
    }
}

fn navigation(chrome: &Chrome, current: Tab) -> Markup {
    let range = if chrome.range.choice == RangeChoice::default() {
        String::new()
    } else {
        path::range_query(&chrome.range)
    };
    let keeps_range = |tab| matches!(tab, Tab::Overview | Tab::Rules | Tab::Health);
    html! {
        header.side {
            a.brand href=(path::OVERVIEW) { (brand()) }
            nav aria-label="Pages" {
                @for (tab, text, address) in TABS.iter().filter(|it| !chrome.hidden.contains(&it.0)) {
                    @let address = if keeps_range(*tab) && !range.is_empty() {
                        format!("{address}?{range}")
                    } else {
                        (*address).to_owned()
                    };
                    a href=(address) aria-current=[(*tab == current).then_some("page")] { (text) }
                }
            }
            @if !chrome.hidden.contains(&Tab::Clients) {
                form.search action=(path::CLIENTS) method="get" role="search" {
                    label {
                        span.hidden-text { "Find a client" }
                        input type="search" name="q" placeholder="Find a client" autocomplete="off"
                            aria-keyshortcuts="/" data-search;
                        kbd aria-hidden="true" { "/" }
                    }
                }
            }
            div.who {
                div.cut title=(tollgate_chart::shown(&chrome.viewer.name)) { (t(&chrome.viewer.name)) }
                div.dim.cut {
                    (t(&chrome.viewer.role))
                    @if let Some(tenant) = &chrome.viewer.tenant { " · " (t(tenant)) }
                }
                div.dim.cut { (t(&chrome.node)) " · " (t(&chrome.version)) " · rev " (chrome.revision) }
                (post(chrome, path::SIGN_OUT, None, &html! { button.link type="submit" { "Sign out" } }))
            }
        }
    }
}

/// What is wrong right now: the worst in whole, the others behind a click.
pub(crate) fn banners(chrome: &Chrome) -> Markup {
    html! {
        div id=(BANNERS) role="status" {
            @if let Some((first, others)) = chrome.banners.split_first() {
                (banner(first, chrome))
                @if !others.is_empty() {
                    details.others {
                        summary { (format::counted(others.len() as u64, "more problem")) }
                        @for other in others { (banner(other, chrome)) }
                    }
                }
            }
        }
    }
}

fn banner(banner: &Banner, chrome: &Chrome) -> Markup {
    html! {
        div.banner.(severity_class(banner.severity)) {
            b {
                (t(&banner.what))
                @if let Some(since) = banner.since { " since " (moment(since, chrome.now)) }
            }
            @if !banner.means.is_empty() { " — " (t(&banner.means)) }
            @if let Some((text, address)) = &banner.link { " " a href=(address) { (t(text)) } }
        }
    }
}

/// The moment that the figures are of.
pub(crate) fn stamp(chrome: &Chrome) -> Markup {
    let whole = format::rfc_3339(chrome.now);
    html! { time id=(STAMP) datetime=(whole) title=(whole) { (format::clock(chrome.now)) " UTC" } }
}

fn range(chrome: &Chrome) -> Markup {
    let current = chrome.range.choice;
    html! {
        nav.seg aria-label="Time range" {
            @for (choice, text) in RangeChoice::ALL.into_iter().zip(["15 m", "1 h", "4 h", "24 h"]) {
                a href=(format!("?range={}", choice.word()))
                    aria-current=[(choice == current).then_some("true")] { (text) }
            }
            @if current == RangeChoice::Custom {
                a href=(format!("?{}", path::range_query(&chrome.range))) aria-current="true" { "zoomed" }
            }
        }
    }
}

/// The range of time.
pub(crate) fn span(chrome: &Chrome) -> String {
    format!("{} UTC", format::span(chrome.range.from, chrome.range.until, chrome.now))
}
