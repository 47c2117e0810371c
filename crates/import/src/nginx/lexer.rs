//! The words of nginx's configuration language, by its own rules for quotes, escapes and comments.

use tollgate_document::{Position, Problem};

use crate::nginx::place::FilePosition;

/// What a text is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConfigToken {
    /// A word, without its quotes and with its escapes resolved.
    Word(String),
    /// `;`
    Semicolon,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// A word and where it starts.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) place: FilePosition,
}

/// Goes through a text once, from its start to its end.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    position: Position,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text), position: Position::START }
    }

    /// The next token and where it starts; none at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<(ConfigToken, Position)>, Problem> {
        self.skip_space_and_comments();
        let start = self.position;
        let Some(first) = self.peek() else { return Ok(None) };
        let token = match first {
            ';' => self.single(ConfigToken::Semicolon),
            '{' => self.single(ConfigToken::Open),
            '}' => self.single(ConfigToken::Close),
            '"' | '\'' => ConfigToken::Word(self.quoted(first)?),
            '\0' => return Err(nul(start)),
            _ => ConfigToken::Word(self.bare()?),
        };
        Ok(Some((token, start)))
    }

    /// Where the next character stands.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Passes over Lua, up to the brace that ends it. Braces in its strings and comments are not
    /// meant.
    pub(super) fn skip_lua(&mut self) -> Result<(), Problem> {
        let start = self.position;
        let mut depth = 0_usize;
        while let Some(next) = self.bump() {
            match next {
                '{' => depth += 1,
                '}' if depth == 0 => return Ok(()),
                '}' => depth -= 1,
                '"' | '\'' => self.skip_lua_string(next),
                '-' if self.peek() == Some('-') => {
                    self.bump();
                    if !self.skip_long_bracket(true) {
                        self.skip_line();
                    }
                }
                '[' => {
                    self.skip_long_bracket(false);
                }
                _ => {}
            }
        }
        let message = "the Lua that starts here has no end";
        Err(Problem::new("", message).with_advice("end the block with }").at(start))
    }

    /// A string of one line, whose opening quote is behind us.
    fn skip_lua_string(&mut self, quote: char) {
        while let Some(next) = self.bump() {
            match next {
                '\\' => {
                    self.bump();
                }
                '\n' => return,
                _ if next == quote => return,
                _ => {}
            }
        }
    }

    /// What stands in `[[`, `]]` or `[==[`, `]==]`, if that is what begins here. The first bracket
    /// of a string is behind us, that of a comment is not.
    fn skip_long_bracket(&mut self, is_comment: bool) -> bool {
        let after = if is_comment { self.rest.strip_prefix('[') } else { Some(self.rest) };
        let Some(after) = after else { return false };
        let level = after.bytes().take_while(|byte| *byte == b'=').count();
        let Some(inside) = after[level..].strip_prefix('[') else { return false };
        let end = format!("]{}]", "=".repeat(level));
        let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
        self.skip_to(&inside[length..]);
        true
    }

    fn single(&mut self, token: ConfigToken) -> ConfigToken {
        self.bump();
        token
    }

    fn skip_space_and_comments(&mut self) {
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' => {
                    self.bump();
                }
                '#' => self.skip_line(),
                _ => return,
            }
        }
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|next| next != '\n') {
            self.bump();
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, Problem> {
        let start = self.position;
        self.bump();
        let mut word = String::new();
        loop {
            let here = self.position;
            match self.bump() {
                Some('\0') => return Err(nul(here)),
                Some('\\') => self.escaped(&mut word),
                Some(next) if next == quote => break,
                Some(next) => word.push(next),
                None => {
                    let problem = Problem::new("", "the quote that opens here is never closed");
                    return Err(problem.with_advice(format!("close it with {quote}")).at(start));
                }
            }
        }
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | ';' | '{' | ')') => Ok(word),
            Some(next) => {
                let message =
                    format!("unexpected {next:?} behind a quoted word, which ends with its quote");
                let advice = "put a space or ; between them";
                Err(Problem::new("", message).with_advice(advice).at(self.position))
            }
        }
    }

    /// A word without quotes ends with a space, `;` or `{`; but `${name}` is part of it.
    fn bare(&mut self) -> Result<String, Problem> {
        let mut word = String::new();
        let mut follows_dollar = false;
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' => break,
                '{' if !follows_dollar => break,
                '\0' => return Err(nul(self.position)),
                _ => {}
            }
            self.bump();
            follows_dollar = next == '$';
            match next {
                '\\' => self.escaped(&mut word),
                _ => word.push(next),
            }
        }
        Ok(word)
    }

    /// What a backslash, which is behind us, makes of the next character. Before most of them it
    /// stands for itself, since it belongs to a regular expression.
    fn escaped(&mut self, word: &mut String) {
        match self.bump() {
            Some(plain @ ('"' | '\'' | '\\')) => word.push(plain),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(other) => word.extend(['\\', other]),
            None => word.push('\\'),
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next()?;
        self.rest = characters.as_str();
        let Position { line, column } = self.position;
        match next {
            '\r' if self.rest.starts_with('\n') => {}
            '\r' | '\n' => self.position = Position { line: line.saturating_add(1), column: 1 },
            _ => self.position.column = column.saturating_add(1),
        }
        Some(next)
    }

    /// Goes on with `rest`, which is the end of what is left.
    fn skip_to(&mut self, rest: &'a str) {
        while self.rest.len() > rest.len() && self.bump().is_some() {}
    }
}

fn nul(position: Position) -> Problem {
    let problem = Problem::new("", "there is a NUL character here");
    problem.with_advice("give a configuration file, which is text").at(position)
}
