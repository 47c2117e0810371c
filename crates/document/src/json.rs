//! Reads JSON into nodes. Strict, and written by hand because the available parsers give no positions.

use crate::node::{MAX_DEPTH, MAX_NODES, MapKey, Node, Value, quote, too_deep, too_large};
use crate::position::Position;
use crate::problem::Problem;

/// Reads a whole text.
pub(crate) fn read(text: &str) -> Result<Node, Problem> {
    let mut reader =
        JsonReader { text, offset: 0, counted: 0, position: Position::START, depth: 0, nodes: 0 };
    let node = reader.value()?;
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.unexpected("the end of the document")),
    }
}

struct JsonReader<'a> {
    text: &'a str,
    /// How far we have read, in bytes.
    offset: usize,
    /// Up to which byte `position` has been counted. It is counted only where it is needed, and never
    /// from the start again, so that a document in a single line is still read in linear time.
    counted: usize,
    position: Position,
    depth: usize,
    nodes: usize,
}

impl<'a> JsonReader<'a> {
    fn value(&mut self) -> Result<Node, Problem> {
        let next = self.peek();
        let position = self.position();
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(too_large(position));
        }
        let value = match next {
            Some(b'{') => self.nested(Self::map)?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            _ if self.take("null") => Value::Null,
            _ if self.take("true") => Value::Bool(true),
            _ if self.take("false") => Value::Bool(false),
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { position, value })
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value, Problem>,
    ) -> Result<Value, Problem> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep(self.position()));
        }
        self.depth += 1;
        self.offset += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value, Problem> {
        let mut items = Vec::new();
        if self.punctuation("]") {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.punctuation("]") {
                return Ok(Value::List(items));
            }
            if !self.punctuation(",") {
                return Err(self.unexpected("a comma or a closing bracket"));
            }
        }
    }

    fn map(&mut self) -> Result<Value, Problem> {
        let mut entries = Vec::new();
        if self.punctuation("}") {
            return Ok(Value::Map(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let position = self.position();
            let text = self.string()?;
            if !self.punctuation(":") {
                return Err(self.unexpected("a colon"));
            }
            entries.push((MapKey { text, position }, self.value()?));
            if self.punctuation("}") {
                return Ok(Value::Map(entries));
            }
            if !self.punctuation(",") {
                return Err(self.unexpected("a comma or a closing brace"));
            }
        }
    }

    /// The token up to its closing quote; what it says is left to the JSON library.
    fn string(&mut self) -> Result<String, Problem> {
        let mut escaped = false;
        let end = self.rest().bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        let Some(end) = end else { return Err(self.problem("the text has no closing quote")) };
        let token = &self.rest()[..end + 2];
        let text = serde_json::from_str(token)
            .map_err(|_| self.problem(&format!("{} is no JSON text", quote(token))))?;
        self.offset += token.len();
        Ok(text)
    }

    fn number(&mut self) -> Result<String, Problem> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.rest().bytes().take_while(is_part).count();
        let token = &self.rest()[..length];
        if !is_number(token) {
            return Err(self.problem(&format!("{} is no JSON number", quote(token))));
        }
        let text = token.to_owned();
        self.offset += length;
        Ok(text)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    /// The byte after any white space.
    fn peek(&mut self) -> Option<u8> {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.offset += self.rest().bytes().take_while(is_space).count();
        self.rest().bytes().next()
    }

    fn punctuation(&mut self, expected: &str) -> bool {
        self.peek();
        self.take(expected)
    }

    fn take(&mut self, expected: &str) -> bool {
        let taken = self.rest().starts_with(expected);
        if taken {
            self.offset += expected.len();
        }
        taken
    }

    fn position(&mut self) -> Position {
        self.position = self.position.after(&self.text[self.counted..self.offset]);
        self.counted = self.offset;
        self.position
    }

    fn unexpected(&mut self, expected: &str) -> Problem {
        let found = match self.rest().chars().next() {
            Some(character) => format!("{character:?}"),
            None => "the end of the text".to_owned(),
        };
        self.problem(&format!("expected {expected}, found {found}"))
    }

    fn problem(&mut self, message: &str) -> Problem {
        let position = self.position();
        Problem::new("", format!("this is not JSON: {message}")).at(position)
    }
}

/// Whether the text has the form of a JSON number.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let signed = |text: &str| digits(text.strip_prefix(['+', '-']).unwrap_or(text));
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(signed)
}
