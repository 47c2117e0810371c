//! A file as a tree of directives, before any of them means anything.

use std::sync::Arc;

use tollgate_document::{Position, Problem};

use crate::nginx::lexer::{ConfigToken, Lexer, Word};
use crate::nginx::place::FilePosition;

/// How deep blocks may be nested. Real files need six levels.
const MAX_DEPTH: usize = 64;

/// A name, its arguments, and what stands in its braces, if it has any.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) place: FilePosition,
    pub(super) arguments: Vec<Word>,
    pub(super) block: Option<Vec<Self>>,
}

impl Directive {
    /// What stands in its braces; nothing, if it has none.
    pub(super) fn children(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The argument of that number, counted from 0.
    pub(super) fn argument(&self, at: usize) -> Option<&str> {
        self.arguments.get(at).map(|word| &*word.text)
    }
}

/// Reads the text of one file. Whatever is opened in it is closed in it.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Directive>, Problem> {
    Parser { file, lexer: Lexer::new(text) }.block(None, 0)
}

struct Parser<'a> {
    file: &'a Arc<str>,
    lexer: Lexer<'a>,
}

impl Parser<'_> {
    /// The directives up to the end of the block that was opened there, or else of the file.
    fn block(&mut self, opened: Option<Position>, depth: usize) -> Result<Vec<Directive>, Problem> {
        let mut directives = Vec::new();
        loop {
            match self.lexer.next()? {
                Some((ConfigToken::Word(name), position)) => {
                    directives.push(self.directive(name, position, depth)?);
                }
                Some((ConfigToken::Close, _)) if opened.is_some() => return Ok(directives),
                Some((ConfigToken::Close, position)) => {
                    let problem = Problem::new("", "unexpected }: no block is open here");
                    return Err(problem.with_advice("remove it, or open a block").at(position));
                }
                Some((ConfigToken::Semicolon, position)) => {
                    let problem = Problem::new("", "unexpected ;: no directive comes before it");
                    return Err(problem.with_advice("remove it").at(position));
                }
                Some((ConfigToken::Open, position)) => {
                    let problem = Problem::new("", "unexpected {: no directive comes before it");
                    return Err(problem.with_advice("name the block, as in http {").at(position));
                }
                None => {
                    let Some(opened) = opened else { return Ok(directives) };
                    let problem = Problem::new("", "the block that opens here is never closed");
                    return Err(problem.with_advice("close it with }").at(opened));
                }
            }
        }
    }

    /// The rest of a directive whose name has been read.
    fn directive(
        &mut self,
        name: String,
        start: Position,
        depth: usize,
    ) -> Result<Directive, Problem> {
        let mut arguments = Vec::new();
        let block = loop {
            match self.lexer.next()? {
                Some((ConfigToken::Word(text), position)) => {
                    arguments.push(Word { text, place: self.place(position) });
                }
                Some((ConfigToken::Semicolon, _)) => break None,
                Some((ConfigToken::Open, position)) => {
                    break Some(self.block_of(&name, position, depth + 1)?);
                }
                Some((ConfigToken::Close, position)) => return Err(unfinished(position, "a }")),
                None => return Err(unfinished(self.lexer.position(), "the end of the file")),
            }
        };
        Ok(Directive { name, place: self.place(start), arguments, block })
    }

    fn block_of(
        &mut self,
        name: &str,
        opened: Position,
        depth: usize,
    ) -> Result<Vec<Directive>, Problem> {
        if depth > MAX_DEPTH {
            let message = format!("blocks are nested deeper than {MAX_DEPTH} levels");
            return Err(Problem::new("", message).with_advice("close some of them").at(opened));
        }
        if name.ends_with("_by_lua_block") {
            return self.lexer.skip_lua().map(|()| Vec::new());
        }
        self.block(Some(opened), depth)
    }

    fn place(&self, position: Position) -> FilePosition {
        FilePosition { file: Arc::clone(self.file), position }
    }
}

fn unfinished(position: Position, found: &str) -> Problem {
    let message = format!("expected ; or {{ to end the directive, found {found}");
    Problem::new("", message).with_advice("end the directive before it with ;").at(position)
}
