//! Which hosts a server answers, by its names and by where it listens.

use std::collections::HashMap;

use tollgate_rules::syntax::is_host;

use crate::nginx::directive::Directive;

/// The names of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerNames {
    /// Those that rules can match, as they write them. None at all means every host.
    pub(super) hosts: Vec<String>,
    /// Those that rules cannot match.
    pub(super) unmatched: Vec<String>,
    /// What `$server_name` is.
    pub(super) first: String,
}

impl ServerNames {
    pub(super) fn read(server: &[Directive]) -> Self {
        let words = server.iter().filter(|it| it.name == "server_name");
        let words = words.flat_map(|it| &it.arguments).map(|word| word.text.to_ascii_lowercase());
        let mut names = Self::default();
        for (number, name) in words.enumerate() {
            if number == 0 {
                // For `.example.com` that is without the dot.
                name.strip_prefix('.').unwrap_or(&name).clone_into(&mut names.first);
            }
            names.add(name);
        }
        names.hosts.sort_unstable();
        names.hosts.dedup();
        names
    }

    fn add(&mut self, name: String) {
        // By convention, this matches nothing: requests get there because there is no other server.
        if name == "_" {
            return;
        }
        let hosts = match name.strip_prefix('.') {
            Some(domain) => vec![domain.to_owned(), format!("*.{domain}")],
            None => vec![name.clone()],
        };
        let is_plain = !name.starts_with('~') && !name.contains('$');
        if is_plain && hosts.iter().all(|host| is_host(host)) {
            self.hosts.extend(hosts);
        } else {
            self.unmatched.push(name);
        }
    }
}

/// How far a server is the default one: it answers requests for hosts that no server names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Default {
    Nowhere,
    /// On some of the addresses where it listens.
    Somewhere,
    /// On all of them.
    Everywhere,
}

/// Which servers are the default ones: the first to listen at an address, unless another one says
/// that it is.
pub(super) fn defaults(servers: &[&Directive]) -> Vec<Default> {
    let addresses = servers.iter().map(|server| listens(server)).collect::<Vec<_>>();
    let mut by_address = HashMap::<&str, (usize, bool)>::new();
    for (at, listens) in addresses.iter().enumerate() {
        for (address, says_so) in listens {
            let known = by_address.entry(address).or_insert((at, *says_so));
            if *says_so && !known.1 {
                *known = (at, true);
            }
        }
    }
    let of = |(at, listens): (usize, &Vec<(String, bool)>)| {
        let is_default = |(address, _): &&(String, bool)| {
            by_address.get(address.as_str()).is_some_and(|(default, _)| *default == at)
        };
        match listens.iter().filter(is_default).count() {
            0 => Default::Nowhere,
            count if count == listens.len() => Default::Everywhere,
            _ => Default::Somewhere,
        }
    };
    addresses.iter().enumerate().map(of).collect()
}

/// The addresses of a server, and whether it says that it is the default one there.
fn listens(server: &Directive) -> Vec<(String, bool)> {
    let directives = server.children().iter().filter(|it| it.name == "listen");
    let mut listens: Vec<_> = directives
        .filter_map(|it| {
            let (address, options) = it.arguments.split_first()?;
            let says_so = options.iter().any(|word| word.text == "default_server");
            Some((full_address(&address.text), says_so))
        })
        .collect();
    if listens.is_empty() {
        listens.push(("*:80".to_owned(), false));
    }
    listens
}

/// `8080` is `*:8080`, and `127.0.0.1` is `127.0.0.1:80`.
fn full_address(text: &str) -> String {
    let is_port = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_port = text.rfind(']').map_or(text, |end| &text[end..]).contains(':');
    match (is_port, has_port) {
        (true, _) => format!("*:{text}"),
        (false, true) => text.to_owned(),
        (false, false) => format!("{text}:80"),
    }
}
