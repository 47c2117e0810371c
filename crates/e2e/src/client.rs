//! A client of HTTP/1.1 that sends whatever bytes it is given.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A server that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A response.
pub struct Answer {
    /// The status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body, without its transfer coding.
    pub body: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:.2000}", self.status, self.headers, self.text())
    }
}

impl Answer {
    /// The value of a header, if there is one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The values of all header fields of that name.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        let headers = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        headers.map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The stable code of an error.
    pub fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status, "{self:?}");
        body["code"].as_str().unwrap_or_else(|| panic!("no code: {self:?}")).to_owned()
    }

    /// Parses a response that another client has received.
    pub fn parse(mut bytes: &[u8]) -> io::Result<Self> {
        Self::read(&mut bytes, false)
    }

    fn read(stream: &mut impl BufRead, is_head: bool) -> io::Result<Self> {
        let (status, headers) = loop {
            let (status, headers) = read_head(stream)?;
            if status >= 200 {
                break (status, headers);
            }
        };
        let mut answer = Self { status, headers, body: Vec::new() };
        let has_body = !is_head && status != 204 && status != 304;
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        let is_chunked = answer.header("transfer-encoding").is_some();
        if has_body && is_chunked {
            answer.body = read_chunks(stream)?;
        } else if has_body && let Some(length) = length {
            answer.body = vec![0; length];
            stream.read_exact(&mut answer.body)?;
        } else if has_body {
            stream.read_to_end(&mut answer.body)?;
        }
        Ok(answer)
    }
}

fn read_head(stream: &mut impl BufRead) -> io::Result<(u16, Vec<(String, String)>)> {
    let line = read_line(stream)?;
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("not an answer: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            return Ok((status, headers));
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn read_chunks(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(stream)?;
        let length = usize::from_str_radix(&line, 16).map_err(io::Error::other)?;
        let start = body.len();
        body.resize(start + length, 0);
        stream.read_exact(&mut body[start..])?;
        read_line(stream)?;
        if length == 0 {
            return Ok(body);
        }
    }
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// A connection that stays open from one request to the next.
pub struct Connection {
    stream: BufReader<TcpStream>,
    is_head: bool,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream), is_head: false }
    }

    /// Sends bytes. A server that has read enough may close the connection meanwhile.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.is_head = bytes.starts_with(b"HEAD ");
        self.stream.get_mut().write_all(bytes)
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        // It may be closed already.
        let _ = self.stream.get_mut().shutdown(Shutdown::Write);
    }

    /// The next response; an error if the connection ends instead.
    pub fn answer(&mut self) -> io::Result<Answer> {
        Answer::read(&mut self.stream, self.is_head).inspect_err(assert_no_hang)
    }

    /// Sends a request and waits for its response.
    pub fn ask(&mut self, request: &[u8]) -> Answer {
        self.send(request).expect("sent");
        self.answer().unwrap_or_else(|error| {
            let shown = String::from_utf8_lossy(&request[..request.len().min(500)]);
            panic!("no answer to {shown}: {error}")
        })
    }

    /// Reads what comes up to the end of the given bytes, and returns it.
    pub fn read_until(&mut self, end: &[u8]) -> String {
        let mut bytes = Vec::new();
        while !bytes.windows(end.len()).any(|window| window == end) {
            let mut piece = [0; 4_096];
            let count = self.stream.read(&mut piece).unwrap_or_else(|error| {
                assert_no_hang(&error);
                0
            });
            let shown = String::from_utf8_lossy(&bytes);
            assert!(count > 0, "{:?} did not come: {shown}", String::from_utf8_lossy(end));
            bytes.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Everything that still comes, up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset counts as an end.
        if let Err(error) = self.stream.read_to_end(&mut bytes) {
            assert_no_hang(&error);
        }
        bytes
    }
}

fn assert_no_hang(error: &io::Error) {
    let is_hang = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    assert!(!is_hang, "the server hangs: neither an answer nor an end after {TIMEOUT:?}");
}

/// The bytes of a valid request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if !body.is_empty() || method == "POST" {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}
