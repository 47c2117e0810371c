//! Bounds of an HTTP/2 connection, as the server announces them.

use std::collections::HashMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate_server::settings::Limits;

use crate::client::connect;
use crate::server::{Server, soon};

const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const IS_ACKNOWLEDGEMENT: u8 = 1;
const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];

const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// What a connection may send before the server announces a window.
const FIRST_WINDOW: u32 = 65_535;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

async fn read_frame(stream: &mut TcpStream) -> Frame {
    let mut head = [0; 9];
    soon("a frame", stream.read_exact(&mut head)).await.expect("a head");
    let [a, b, c, kind, flags, rest @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    soon("a payload", stream.read_exact(&mut payload)).await.expect("a payload");
    Frame { kind, flags, stream: u32::from_be_bytes(rest), payload }
}

#[tokio::test]
async fn a_connection_of_http2_is_bounded() {
    let server = Server::start(&Limits::default(), None).await;
    let mut stream = connect(server.address).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
    stream.write_all(&EMPTY_SETTINGS).await.expect("sent");
    let (mut settings, mut window) = (HashMap::new(), None);
    while settings.is_empty() || window.is_none() {
        let frame = read_frame(&mut stream).await;
        match (frame.kind, frame.stream) {
            (SETTINGS, 0) if frame.flags & IS_ACKNOWLEDGEMENT == 0 => {
                settings.extend(frame.payload.chunks_exact(6).map(|entry| {
                    let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
                    (u16::from_be_bytes([entry[0], entry[1]]), value)
                }));
            }
            (WINDOW_UPDATE, 0) => {
                let more = frame.payload.try_into().expect("four bytes");
                window = Some(FIRST_WINDOW + u32::from_be_bytes(more));
            }
            _ => {}
        }
    }
    assert_eq!(settings.get(&MAX_CONCURRENT_STREAMS), Some(&64));
    assert_eq!(settings.get(&INITIAL_WINDOW_SIZE), Some(&(256 * 1024)));
    assert_eq!(window, Some(1024 * 1024));
}
