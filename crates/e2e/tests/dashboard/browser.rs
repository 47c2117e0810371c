//! A browser as far as HTTP goes: it keeps the cookie, and sends the forms of the pages it was shown.

use tollgate_e2e::client::{Answer, Connection, request};
use tollgate_e2e::server::{ADMIN_TOKEN, JSON, Server, bearer_admin};

pub(crate) const SIGN_IN: &str = "/ui/sign-in";
const BOUNDARY: &str = "----formboundaryKq3z9Yw0";
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

pub(crate) struct Browser<'a> {
    server: &'a Server,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl<'a> Browser<'a> {
    /// A browser without a session.
    pub(crate) fn new(server: &'a Server) -> Self {
        Self { server, cookie: String::new(), csrf: String::new() }
    }

    /// A browser that is signed in with a token.
    pub(crate) fn signed_in(server: &'a Server, token: &str) -> Self {
        let mut browser = Self::new(server);
        let answer = browser.sign_in(token);
        assert_eq!(answer.status, 303, "{answer:?}");
        let page = browser.get("/");
        assert_eq!(page.status, 200, "{page:?}");
        browser.csrf = csrf_of(&page).expect("a form");
        browser
    }

    /// A browser of the administrator.
    pub(crate) fn admin(server: &'a Server) -> Self {
        Self::signed_in(server, ADMIN_TOKEN)
    }

    pub(crate) fn sign_in(&mut self, token: &str) -> Answer {
        self.post(SIGN_IN, &[("token", token)])
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.get_with(path, &[])
    }

    pub(crate) fn get_with(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, fields, "")
    }

    /// Sends a form with the token of the session.
    pub(crate) fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let csrf = self.csrf.clone();
        let mut fields = fields.to_vec();
        if !csrf.is_empty() {
            fields.push(("csrf", &csrf));
        }
        self.post_as_is(path, &fields, &[])
    }

    /// Sends a form as it is.
    pub(crate) fn post_as_is(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Answer {
        let body = encoded(fields);
        self.ask("POST", path, &[&[FORM], headers].concat(), &body)
    }

    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let cookie = self.cookie.clone();
        let mut fields = fields.to_vec();
        if !cookie.is_empty() {
            fields.push(("Cookie", &cookie));
        }
        let address = self.server.admin_address.unwrap_or(self.server.address);
        let bytes = request(method, path, &fields, body.as_bytes());
        let answer = Connection::open(address).ask(&bytes);
        if let Some(set) = answer.header("set-cookie") {
            let pair = set.split(';').next().unwrap_or_default();
            self.cookie = if pair.ends_with('=') { String::new() } else { pair.to_owned() };
        }
        answer
    }

    /// Sends a form with a file, with the token of the session.
    pub(crate) fn upload(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        file: (&str, &[u8]),
    ) -> Answer {
        let csrf = self.csrf.clone();
        let fields = [&[("csrf", csrf.as_str())], fields].concat();
        let bytes = self.upload_request(path, &multipart(&fields, file), &[]);
        Connection::open(self.server.admin_address.unwrap_or(self.server.address)).ask(&bytes)
    }

    /// The request that sends a form with a file.
    pub(crate) fn upload_request(
        &self,
        path: &str,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Vec<u8> {
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        let own = [("Content-Type", content_type.as_str()), ("Cookie", self.cookie.as_str())];
        request("POST", path, &[&own[..], headers].concat(), body)
    }

    /// Whether pages are shown, and not the sign-in.
    pub(crate) fn is_signed_in(&mut self) -> bool {
        let answer = self.get("/");
        match answer.status {
            200 => true,
            303 => {
                assert_eq!(answer.header("location"), Some(SIGN_IN), "{answer:?}");
                false
            }
            _ => panic!("{answer:?}"),
        }
    }

    /// Opens a stream, and returns its connection.
    pub(crate) fn stream(&self, page: &str) -> Connection {
        let page = encoded(&[("page", page)]);
        let fields = [("Cookie", self.cookie.as_str()), ("Accept", "text/event-stream")];
        let mut connection = self.server.connect();
        let bytes = request("GET", &format!("/ui/events?{page}"), &fields, b"");
        connection.send(&bytes).expect("sent");
        connection
    }
}

/// The token that forms of a page carry.
pub(crate) fn csrf_of(page: &Answer) -> Option<String> {
    let text = page.text();
    let (_, rest) = text.split_once("name=\"csrf\" value=\"")?;
    Some(rest.split('"').next()?.to_owned()).filter(|token| !token.is_empty())
}

/// A form with a file as browsers send it.
pub(crate) fn multipart(fields: &[(&str, &str)], (name, content): (&str, &[u8])) -> Vec<u8> {
    let mut body = Vec::new();
    for (field, value) in fields {
        let part = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n"
        );
        body.extend(part.into_bytes());
    }
    let head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"log\"; filename=\"{name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.extend(head.into_bytes());
    body.extend(content);
    body.extend(format!("\r\n--{BOUNDARY}--\r\n").into_bytes());
    body
}

/// The fields of a form as browsers send them.
pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        let byte = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        };
        text.bytes().map(byte).collect()
    };
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Makes a token through the API; returns its id and the token.
pub(crate) fn token(server: &Server, body: &str) -> (String, String) {
    let made = server.post_as_admin("/api/v1/tokens", body);
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    (text("token_id"), text("token"))
}

/// Writes a rule through the API.
pub(crate) fn put_rule(server: &Server, rule: &str) {
    let made = server.ask("POST", "/api/v1/rules", &[JSON, bearer_admin()], rule);
    assert!(matches!(made.status, 200 | 201), "{made:?}");
}
