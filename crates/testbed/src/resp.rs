//! The little of the protocol of Redis that tests need to set up a server and look into it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The timeout of a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// A reply of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A text, long or short.
    Text(String),
    /// A number.
    Integer(i64),
    /// Several replies in one.
    List(Vec<Reply>),
    /// Nothing is there.
    Nothing,
    /// The command was refused, and why.
    Error(String),
}

impl Reply {
    /// The text; a panic if it is none.
    pub fn text(&self) -> &str {
        let Self::Text(text) = self else { panic!("not a text: {self:?}") };
        text
    }

    /// The number; a panic if it is none.
    pub fn integer(&self) -> i64 {
        let Self::Integer(integer) = self else { panic!("not a number: {self:?}") };
        *integer
    }

    /// The replies in it; panics if it is not a list.
    pub fn list(&self) -> &[Self] {
        let Self::List(items) = self else { panic!("not a list: {self:?}") };
        items
    }
}

/// Sends commands over a separate connection and returns the last reply.
pub(crate) fn ask(server: SocketAddr, commands: &[&[&str]]) -> io::Result<Reply> {
    let mut stream = TcpStream::connect_timeout(&server, REPLY_TIMEOUT)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut last = Reply::Nothing;
    for command in commands {
        stream.write_all(&encode(command))?;
        last = read(&mut answers)?;
    }
    Ok(last)
}

fn encode(command: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", command.len());
    for word in command {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    text.into_bytes()
}

fn read(from: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.trim_end_matches("\r\n");
    let Some((kind, rest)) = line.split_at_checked(1) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let number = || rest.parse::<i64>().map_err(|_| strange(line));
    let length = || number().map(|length| usize::try_from(length).ok());
    Ok(match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Integer(number()?),
        "$" => match length()? {
            Some(length) => Reply::Text(read_text(from, length)?),
            None => Reply::Nothing,
        },
        "*" => match length()? {
            Some(length) => {
                Reply::List((0..length).map(|_| read(from)).collect::<io::Result<_>>()?)
            }
            None => Reply::Nothing,
        },
        _ => return Err(strange(line)),
    })
}

fn read_text(from: &mut impl Read, length: usize) -> io::Result<String> {
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn strange(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a reply of Redis: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, expected: &Reply) {
        assert_eq!(&read(&mut bytes.as_bytes()).expect(bytes), expected, "{bytes:?}");
    }

    #[test]
    fn replies_are_parsed() {
        let text = |text: &str| Reply::Text(text.to_owned());
        let list = Reply::List;
        check("+OK\r\n", &text("OK"));
        check("-ERR no\r\n", &Reply::Error("ERR no".to_owned()));
        check(":-7\r\n", &Reply::Integer(-7));
        check("$4\r\na\r\nb\r\n", &text("a\r\nb"));
        check("$0\r\n\r\n", &text(""));
        check("$-1\r\n", &Reply::Nothing);
        check("*-1\r\n", &Reply::Nothing);
        check("*0\r\n", &list(vec![]));
        let nested = list(vec![Reply::Integer(1), list(vec![Reply::Nothing])]);
        check("*2\r\n:1\r\n*1\r\n$-1\r\n", &nested);
    }

    #[test]
    fn invalid_replies_are_errors() {
        for bytes in ["", "\r\n", ":x\r\n", "$5\r\nab\r\n", "*2\r\n:1\r\n", "HTTP/1.1 400\r\n"] {
            let answer = read(&mut bytes.as_bytes());
            assert!(answer.is_err(), "{bytes:?} was read as {answer:?}");
        }
    }
}
