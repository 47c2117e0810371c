//! Every page, from realistic, empty and hostile models: well-formed, safe under the content security policy, usable
//! with a keyboard and a screen reader, and equal to the parts that move.

mod markup;

use std::collections::HashSet;

use markup::{Element, Node, read};
use tollgate_dashboard::samples::{HOSTILE, Sample, empty, hostile, rich, sign_ins};
use tollgate_dashboard::{asset, path, sign_in};

/// Every page with its name and its HTML.
fn pages() -> Vec<(String, String)> {
    let page = |kind: &str, sample: &Sample| {
        (format!("{kind} {}", sample.name), sample.page.html(&sample.chrome))
    };
    let mut pages: Vec<_> = rich().iter().map(|sample| page("rich", sample)).collect();
    pages.extend(empty().iter().map(|sample| page("empty", sample)));
    pages.extend(hostile().iter().map(|sample| page("hostile", sample)));
    pages.extend(sign_ins().iter().map(|model| ("sign in".to_owned(), sign_in(model))));
    pages
}

fn check(test: impl Fn(&Element) -> Result<(), String>) {
    let pages = pages();
    assert!(pages.len() > 50, "{} pages", pages.len());
    for (name, html) in pages {
        let page = read(&html).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        test(&page).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
}

/// Fails with the elements that are wrong.
fn none(wrong: &[&Element]) -> Result<(), String> {
    match wrong.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} {:?} {}", first.name, first.attributes, first.text())),
    }
}

#[test]
fn pages_are_well_formed() {
    check(|page| {
        let mut ids = HashSet::new();
        let twice: Vec<_> = page
            .all()
            .into_iter()
            .filter(|element| element.attribute("id").is_some_and(|id| !ids.insert(id.to_owned())))
            .collect();
        none(&twice)?;
        for (name, count) in [("html", 1), ("head", 1), ("main", 1), ("h1", 1)] {
            let found = page.named(name).len();
            if found != count {
                return Err(format!("{found} elements {name}"));
            }
        }
        Ok(())
    });
}

#[test]
fn the_content_security_policy_blocks_nothing() {
    check(|page| {
        let blocked: Vec<_> = page
            .all()
            .into_iter()
            .filter(|element| {
                let is_inline = matches!(element.name.as_str(), "script" | "style")
                    && (!element.has("src") || !element.children.is_empty());
                let is_handler = element.attributes.iter().any(|(name, _)| name.starts_with("on"));
                let is_foreign = ["href", "src", "action", "formaction"].iter().any(|name| {
                    element.attribute(name).is_some_and(|address| {
                        !address.starts_with(['/', '#', '?']) || address.starts_with("//")
                    })
                });
                is_inline || is_handler || is_foreign || element.has("style")
            })
            .collect();
        none(&blocked)
    });
}

#[test]
fn assets_are_those_that_pages_name() {
    check(|page| {
        let named =
            page.all().into_iter().filter_map(|it| it.attribute("src").or(it.attribute("href")));
        let missing: Vec<&str> = named
            .filter(|address| {
                address.starts_with(asset::ASSETS) && asset::Asset::find(address).is_none()
            })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join(" ")) }
    });
}

#[test]
fn forms_that_post_have_the_csrf_token_and_others_do_not() {
    check(|page| {
        let wrong: Vec<_> = page
            .named("form")
            .into_iter()
            .filter(|form| {
                let is_post = form.attribute("method") == Some("post");
                let tokens = form
                    .named("input")
                    .into_iter()
                    .filter(|input| input.attribute("name") == Some("csrf"))
                    .filter(|input| input.attribute("value").is_some())
                    .count();
                tokens != usize::from(is_post) || !form.has("action") || !form.has("method")
            })
            .collect();
        none(&wrong)
    });
}

#[test]
fn fields_have_labels_and_labels_have_fields() {
    let is_field = |element: &&Element| {
        matches!(element.name.as_str(), "input" | "select" | "textarea")
            && element.attribute("type") != Some("hidden")
    };
    check(move |page| {
        let fields = page.all().into_iter().filter(is_field).count();
        let labels = page.named("label");
        let labelled = labels.iter().flat_map(|label| label.all()).filter(is_field).count();
        let silent: Vec<_> = labels
            .into_iter()
            .filter(|label| {
                label.all().into_iter().filter(is_field).count() != 1
                    || label.text().trim().is_empty()
            })
            .collect();
        none(&silent)?;
        if fields == labelled {
            Ok(())
        } else {
            Err(format!("{fields} fields, {labelled} labelled"))
        }
    });
}

#[test]
fn everything_to_press_has_a_name() {
    check(|page| {
        let nameless: Vec<_> = page
            .all()
            .into_iter()
            .filter(|element| match element.name.as_str() {
                "a" | "button" | "summary" | "th" => {
                    element.text().trim().is_empty() && !element.has("aria-label")
                }
                "nav" => !element.has("aria-label"),
                "svg" => {
                    element.attribute("aria-hidden") != Some("true")
                        && element.attribute("aria-label").is_none_or(str::is_empty)
                }
                _ => false,
            })
            .collect();
        none(&nameless)
    });
}

#[test]
fn columns_have_a_scope_and_rows_as_many_cells_as_columns() {
    check(|page| {
        for table in page.named("table") {
            let headers = table.named("th");
            none(&headers.iter().copied().filter(|th| !th.has("scope")).collect::<Vec<_>>())?;
            let width = |row: &Element| -> usize {
                let cells = row.all().into_iter().filter(|it| it.name == "td" || it.name == "th");
                let spans = cells.map(|cell| {
                    cell.attribute("colspan").and_then(|it| it.parse().ok()).unwrap_or(1)
                });
                spans.sum()
            };
            let widths: HashSet<usize> = table.named("tr").into_iter().map(width).collect();
            if widths.len() > 1 {
                return Err(format!("rows of {widths:?} cells: {}", table.text()));
            }
        }
        Ok(())
    });
}

/// Controls, bidi marks and zero-width characters, besides the line breaks that pages have themselves.
fn is_invisible(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn visible_texts(element: &Element, found: &mut Vec<String>) {
    // Fields hold texts as they were typed, or they would be changed by saving.
    if element.name == "textarea" {
        return;
    }
    for (name, value) in &element.attributes {
        if ["title", "aria-label", "data-notes", "placeholder"].contains(&name.as_str()) {
            found.push(value.clone());
        }
    }
    for child in &element.children {
        match child {
            Node::Text(text) => found.push(text.clone()),
            Node::Element(element) => visible_texts(element, found),
        }
    }
}

#[test]
fn hostile_texts_are_shown_and_do_nothing() {
    for sample in hostile() {
        let html = sample.page.html(&sample.chrome);
        assert!(!html.contains("<script>"), "{}", sample.name);
        assert!(!html.contains("<img"), "{}", sample.name);
        let page = read(&html).expect("well-formed HTML");
        let mut texts = Vec::new();
        visible_texts(&page, &mut texts);
        for text in &texts {
            assert!(!text.contains(is_invisible), "{}: {text:?}", sample.name);
        }
        let shown = texts.iter().filter(|text| text.contains("<script>alert(1)</script>")).count();
        assert!(shown > 5, "{}: only {shown} hostile texts are shown", sample.name);
    }
    assert!(HOSTILE.contains(is_invisible));
}

#[test]
fn values_of_fields_stay_as_they_were_typed() {
    for sample in hostile() {
        let page = read(&sample.page.html(&sample.chrome)).expect("well-formed HTML");
        let values = page.named("input").into_iter().filter_map(|it| it.attribute("value"));
        let hostile = values.filter(|value| value.contains("onerror")).collect::<Vec<_>>();
        assert!(!hostile.is_empty(), "{}", sample.name);
        for value in hostile {
            assert!(value.contains(HOSTILE) || value.contains('%'), "{}: {value}", sample.name);
        }
    }
}

/// A part that is sent later is, byte for byte, the part of the page.
#[test]
fn parts_that_move_are_parts_of_their_page() {
    let mut found = 0;
    for sample in rich().iter().chain(&empty()).chain(&hostile()) {
        let html = sample.page.html(&sample.chrome);
        for fragment in sample.page.fragments(&sample.chrome) {
            found += 1;
            assert!(html.contains(&fragment.html), "{}: {}", sample.name, fragment.id);
            let read = read(&fragment.html).expect("well-formed HTML");
            assert_eq!(read.children.len(), 1, "{}: {}", sample.name, fragment.id);
            let Some(Node::Element(root)) = read.children.first() else {
                panic!("{}", fragment.id)
            };
            assert_eq!(root.attribute("id"), Some(fragment.id));
            let event = fragment.to_event();
            assert_eq!(event.matches('\n').count(), 4, "{}", fragment.id);
        }
    }
    assert!(found > 100, "{found} parts");
}

#[test]
fn what_a_viewer_may_not_do_is_not_offered() {
    for mut sample in rich() {
        sample.chrome.viewer.rights = Default::default();
        let page = read(&sample.page.html(&sample.chrome)).expect("well-formed HTML");
        let forms =
            page.named("form").into_iter().filter(|form| form.attribute("method") == Some("post"));
        let actions: Vec<&str> = forms.filter_map(|form| form.attribute("action")).collect();
        let harmless = |action: &&str| {
            // A rule says itself whether it may be written, bans too; trying and simulating change nothing.
            [path::SIGN_OUT, path::SIMULATE, path::TRY, path::BAN_LIFT].contains(action)
                || action.starts_with(path::RULES)
        };
        let others: Vec<_> = actions.iter().filter(|action| !harmless(action)).collect();
        assert!(others.is_empty(), "{}: {others:?}", sample.name);
    }
}

/// Nodes that were gone were shown with the rates of their last second, and files for Envoy could not be compared.
#[test]
fn nodes_that_are_silent_or_differ_are_marked() {
    for sample in rich().into_iter().filter(|it| ["overview", "health"].contains(&it.name)) {
        let page = read(&sample.page.html(&sample.chrome)).expect("well-formed HTML");
        let nodes = page.all().into_iter().find(|it| it.attribute("id") == Some("nodes"));
        let rows = nodes.expect("nodes").named("tr");
        let row = |name: &str| {
            let row = rows.iter().find(|row| row.text().contains(name));
            row.unwrap_or_else(|| panic!("{name}")).text()
        };
        let (this, differs, silent) = (row("tg-a"), row("tg-b"), row("tg-c"));
        assert!(this.contains("reachable") && !this.contains("other limits"), "{this}");
        assert!(differs.contains("other limits for Envoy than this node"), "{differs}");
        assert!(differs.contains("1 of 2 servers") && differs.contains("shuts down"), "{differs}");
        assert!(silent.contains("silent for 4 min") && silent.contains("not known"), "{silent}");
        assert!(!silent.contains("711"), "its last rate: {silent}");
    }
}

#[test]
fn nothing_is_offered_where_nothing_can_be_changed() {
    for mut sample in rich() {
        sample.chrome.read_only = Some("The rules come from a file.".to_owned());
        let html = sample.page.html(&sample.chrome);
        for offer in
            ["Save as revision", "Roll back", ">Override…<", ">Ban…<", ">New token…<", ">Add…<"]
        {
            assert!(!html.contains(offer), "{}: {offer}", sample.name);
        }
    }
}

#[test]
fn the_script_and_the_style_load_nothing_from_elsewhere() {
    for asset in asset::ALL {
        for foreign in [
            "form.action",
            "form.method",
            "target.method",
            "target.action",
            "http:",
            "https:",
            "//cdn",
            "@import",
            "eval(",
            "insertAdjacentHTML",
            "document.write",
        ] {
            let content = asset.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!content.contains(foreign), "{}: {foreign}", asset.path());
        }
    }
}
