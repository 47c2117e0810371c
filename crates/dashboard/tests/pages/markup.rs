//! A strict reader of the HTML that maud writes: every element closed, every attribute quoted. It is no browser, so it
//! accepts nothing that browsers would repair.

/// An element with what is in it.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) children: Vec<Node>,
}

/// An element or a text.
#[derive(Debug)]
pub(crate) enum Node {
    Element(Element),
    Text(String),
}

const VOID: [&str; 8] = ["input", "meta", "link", "br", "hr", "img", "col", "wbr"];

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// This element and all below it.
    pub(crate) fn all(&self) -> Vec<&Element> {
        let below = self.children.iter().filter_map(|child| match child {
            Node::Element(element) => Some(element.all()),
            Node::Text(_) => None,
        });
        std::iter::once(self).chain(below.flatten()).collect()
    }

    /// All below it, and itself, of this name.
    pub(crate) fn named(&self, name: &str) -> Vec<&Element> {
        self.all().into_iter().filter(|element| element.name == name).collect()
    }

    /// All text in it.
    pub(crate) fn text(&self) -> String {
        let texts = self.children.iter().map(|child| match child {
            Node::Element(element) => element.text(),
            Node::Text(text) => text.clone(),
        });
        texts.collect()
    }
}

/// Reads a document or a fragment.
pub(crate) fn read(html: &str) -> Result<Element, String> {
    let mut stack = vec![Element { name: "document".to_owned(), ..Element::default() }];
    let mut rest = html.strip_prefix("<!DOCTYPE html>").unwrap_or(html);
    while let Some(at) = rest.find('<') {
        add_text(&mut stack, &rest[..at])?;
        rest = &rest[at..];
        let context: String = rest.chars().take(80).collect();
        let fail = |what: &str| Err(format!("{what} at {context}"));
        if let Some(tail) = rest.strip_prefix("</") {
            let Some((name, after)) = tail.split_once('>') else { return fail("no end of a tag") };
            let Some(closed) = stack.pop() else { return fail("nothing to close") };
            if closed.name != name {
                return fail(&format!("{} is closed by {name}", closed.name));
            }
            let Some(parent) = stack.last_mut() else { return fail("too much is closed") };
            parent.children.push(Node::Element(closed));
            rest = after;
            continue;
        }
        let (element, is_closed, after) =
            open_tag(&rest[1..]).map_err(|what| format!("{what} at {context}"))?;
        if is_closed || VOID.contains(&element.name.as_str()) {
            let parent = stack.last_mut().ok_or("no parent")?;
            parent.children.push(Node::Element(element));
        } else {
            stack.push(element);
        }
        rest = after;
    }
    add_text(&mut stack, rest)?;
    match stack.pop() {
        Some(root) if stack.is_empty() => Ok(root),
        open => Err(format!("not closed: {:?}", open.map(|it| it.name))),
    }
}

fn add_text(stack: &mut [Element], text: &str) -> Result<(), String> {
    if !text.is_empty() {
        let parent = stack.last_mut().ok_or("a text outside of everything")?;
        parent.children.push(Node::Text(unescaped(text)?));
    }
    Ok(())
}

/// The element that a tag opens, whether it is closed at once, and what follows.
fn open_tag(mut rest: &str) -> Result<(Element, bool, &str), String> {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).ok_or("no end of a name")?;
    let mut element = Element { name: rest[..end].to_owned(), ..Element::default() };
    if element.name.is_empty() {
        return Err("no name".to_owned());
    }
    rest = &rest[end..];
    loop {
        if let Some(after) = rest.strip_prefix('>') {
            return Ok((element, false, after));
        }
        if let Some(after) = rest.strip_prefix("/>") {
            return Ok((element, true, after));
        }
        rest = rest.strip_prefix(' ').ok_or("no space before an attribute")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = rest.find(|c| !is_name(c)).ok_or("no end of an attribute")?;
        let name = rest[..end].to_owned();
        if name.is_empty() || element.has(&name) {
            return Err(format!("the attribute `{name}` is empty or there twice"));
        }
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(after) = rest.strip_prefix("=\"") {
            let (quoted, after) = after.split_once('"').ok_or("no end of a value")?;
            value = unescaped(quoted)?;
            rest = after;
        }
        element.attributes.push((name, value));
    }
}

/// A text without references; others than those that are written here are errors.
fn unescaped(text: &str) -> Result<String, String> {
    if text.contains('<') || text.contains('>') && text.contains("<") {
        return Err(format!("markup in {text}"));
    }
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        let (name, after) = rest[at + 1..].split_once(';').ok_or_else(|| format!("& in {text}"))?;
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            "#10" => '\n',
            "#13" => '\r',
            other => return Err(format!("&{other}; in {text}")),
        });
        rest = after;
    }
    Ok(plain + rest)
}

#[test]
fn the_reader_is_strict() {
    assert!(read("<!DOCTYPE html><p class=\"a\">b<input hidden></p>").is_ok());
    for wrong in [
        "<p>",
        "</p>",
        "<p></b>",
        "<p a=b></p>",
        "<p a=\"1\" a=\"2\"></p>",
        "a & b",
        "<p <b></b></p>",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
