//! Messages arrive in any frames: the response is the same, however a client cuts its message.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use tollgate_e2e::grpc::{CHECK_BATCH, CHECK_RATE_LIMIT, SHOULD_RATE_LIMIT};
use tollgate_e2e::server::{Server, Setup};

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 1000, window: 1h, identifier_type: user_id}
";
const SETTINGS: &str = "limits: {body_bytes: 64KiB}";

/// Frames of a request, and whether the last of them ends it; otherwise an empty one follows.
struct Frames {
    frames: VecDeque<Vec<u8>>,
    ends_with_last: bool,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frames.pop_front().map(|frame| Ok(Frame::data(frame.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ends_with_last && self.frames.is_empty()
    }
}

/// Calls a method; returns its status, the message about it, and the bytes of the response.
async fn call(address: SocketAddr, method: &str, body: Frames) -> (String, String, Bytes) {
    let stream = TcpStream::connect(address).await.expect("a connection");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    let driver = tokio::spawn(connection);
    let request = Request::post(format!("http://{address}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .expect("a request");
    let response = sender.send_request(request).await.expect("a response");
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a body");
    driver.abort();
    let fields = body.trailers().cloned().unwrap_or(head.headers);
    let field = |fields: &HeaderMap, name: &str| {
        fields.get(name).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
    };
    (field(&fields, "grpc-status"), field(&fields, "grpc-message"), body.to_bytes())
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// A text as a field of a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 127 {
        field.push((length & 127) as u8 | 128);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(content);
    field
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_read_however_it_is_cut() {
    let setup = Setup { rules: Some(RULES), settings: SETTINGS, ..Setup::default() };
    let server = Server::start(&setup);
    let address = server.grpc_address;
    let check = field(1, b"ann");
    let many: Vec<u8> = (0..900).flat_map(|_| field(1, &field(1, &[b'u'; 40]))).collect();
    let entry = field(1, &[field(1, b"user_id"), field(2, b"ann")].concat());
    let envoy = [field(1, b"any"), field(2, &entry)].concat();
    for (path, message) in
        [(CHECK_RATE_LIMIT, check), (CHECK_BATCH, many), (SHOULD_RATE_LIMIT, envoy)]
    {
        let message = framed(&message);
        for cut in [0, 3, 5, 6, message.len() - 1] {
            for ends_with_last in [true, false] {
                let frames = [&message[..cut], &message[cut..]];
                let frames = frames.into_iter().filter(|frame| !frame.is_empty());
                let frames = frames.map(<[u8]>::to_vec).collect();
                let (status, detail, body) =
                    call(address, path, Frames { frames, ends_with_last }).await;
                assert_eq!((status.as_str(), detail.as_str()), ("0", ""), "{path} {cut}");
                let length = u32::from_be_bytes(body[1..5].try_into().expect("a prefix"));
                assert_eq!((body[0], length as usize + 5), (0, body.len()), "{path} {cut}");
                assert!(length > 0, "{path} {cut}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_one_message_is_refused_or_read_by_its_first() {
    let setup = Setup { rules: Some(RULES), settings: SETTINGS, ..Setup::default() };
    let server = Server::start(&setup);
    let address = server.grpc_address;
    let message = framed(&field(1, b"ann"));
    let compressed = [&[1], &message[1..]].concat();
    let marked = [&[2], &message[1..]].concat();
    let large = framed(&field(1, &[b'u'; 70_000]));
    let cases: [(Vec<Vec<u8>>, &str, &str); 9] = [
        (vec![message.clone(), message.clone()], "0", ""),
        (vec![[message.clone(), message.clone()].concat()], "0", ""),
        (vec![], "13", "Missing request message."),
        (vec![vec![]], "13", "Missing request message."),
        (vec![message[..message.len() - 1].to_vec()], "13", "Unexpected EOF decoding stream."),
        (vec![message.clone(), vec![0]], "13", "Unexpected EOF decoding stream."),
        (vec![compressed], "13", "compressed-flag"),
        (vec![marked], "13", "invalid compression flag"),
        (vec![large], "11", "decoded message length too large"),
    ];
    for path in [CHECK_RATE_LIMIT, SHOULD_RATE_LIMIT] {
        for (frames, expected, expected_detail) in &cases {
            for ends_with_last in [true, false] {
                let frames: VecDeque<Vec<u8>> = frames.clone().into();
                let sent = format!("{path} {frames:?}").chars().take(200).collect::<String>();
                let (status, detail, _) =
                    call(address, path, Frames { frames, ends_with_last }).await;
                let detail = detail.replace("%20", " ");
                // Messages of Envoy may be larger, and this one has no domain.
                let is_envoys = path.contains("RateLimitService") && *expected != "13";
                if is_envoys {
                    assert_eq!(status, "3", "{sent}: {detail}");
                } else {
                    assert_eq!(status, *expected, "{sent}: {detail}");
                    assert!(detail.contains(expected_detail), "{sent}: {detail}");
                }
            }
        }
    }
}
