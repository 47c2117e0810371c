//! The cookie with the session of the dashboard.

use http::{HeaderMap, HeaderValue, header};
use tollgate::Micros;

const NAME: &str = "tollgate_session";

/// The session in the header fields of a request. Of several, which only another program on the same host can have made,
/// all are tried.
pub(super) fn sessions(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| name.trim() == NAME).map(|(_, value)| value.trim())
}

/// The field that sets the cookie. `is_secure` keeps it off connections that are not encrypted.
pub(super) fn set(session: &str, lifetime: Micros, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let seconds = lifetime.as_secs_ceil();
    let cookie =
        format!("{NAME}={session}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&cookie).ok()
}

/// The field that removes the cookie.
pub(super) fn remove() -> HeaderValue {
    HeaderValue::from_static("tollgate_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        for (line, expected) in [
            ("", vec![]),
            ("tollgate_session=abc", vec!["abc"]),
            ("a=1; tollgate_session=abc; b=2", vec!["abc"]),
            ("tollgate_sessions=x; xtollgate_session=y", vec![]),
            ("tollgate_session=; tollgate_session=b", vec!["", "b"]),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_static(line));
            assert_eq!(sessions(&headers).collect::<Vec<_>>(), expected, "{line}");
        }
    }

    #[test]
    fn scripts_and_other_sites_do_not_get_it() {
        let set = |is_secure| set("abc", Micros::from_secs(60), is_secure).expect("a field");
        let plain = "tollgate_session=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Strict";
        assert_eq!(set(false), plain);
        assert_eq!(set(true), format!("{plain}; Secure"));
    }
}
