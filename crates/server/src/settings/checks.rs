//! Checks across settings: a server is open to other machines only if its settings say so.

use std::net::IpAddr;

use super::layers::Layers;
use super::value::Setting as _;
use super::{ADMIN_ON_LOOPBACK, CheckAuth, Secret, Settings};

/// The shortest token, in characters.
const MIN_TOKEN_LENGTH: usize = 16;

/// Decides how callers authenticate, and where the admin API listens.
pub(super) fn check_auth(
    layers: &mut Layers<'_>,
    settings: &mut Settings,
    chosen: Option<CheckAuth>,
) {
    check_tokens(layers, settings, chosen);
    let is_local = is_loopback(settings.http.ip());
    if settings.admin.is_none() && !is_local {
        settings.admin = Some(ADMIN_ON_LOOPBACK);
        layers.resolved("admin", settings.admin.show());
    }
    if settings.admin == Some(settings.http) && settings.http.port() != 0 {
        let message = "this is where the check API listens; choose another port, or leave it out";
        layers.refuse("admin", message);
    }
    for (name, other) in
        [("http", settings.http), ("admin", settings.admin.unwrap_or(settings.http))]
    {
        if settings.grpc.tcp() == Some(other) && other.port() != 0 {
            let message = format!("this is where {name} listens; choose another port");
            layers.refuse("grpc", message);
            break;
        }
    }
    let addresses = [Some(settings.http), settings.grpc.tcp()].into_iter().flatten();
    let public = addresses.into_iter().find(|at| !is_loopback(at.ip()));
    if chosen == Some(CheckAuth::Mtls) && settings.grpc.tcp().is_none() {
        let message = "a Unix socket has no client certificates, which check_auth mtls asks for; choose \
                       a port, or check_auth token";
        layers.refuse("grpc", message);
    }
    match (chosen, public) {
        (None, Some(public)) => {
            let message = format!(
                "{public} can be reached from other machines, so choose how callers authenticate: \
                 token, mtls, or none if every client that reaches the port may check"
            );
            layers.refuse("check_auth", message);
        }
        (None, None) if settings.check_token.is_some() => {
            let message = "there is a check token, but no caller needs it; choose token or none";
            layers.refuse("check_auth", message);
        }
        // A token that cannot be used is reported as a separate problem.
        (Some(CheckAuth::Token), _)
            if settings.check_token.is_none() && !layers.has_refused("check_token") =>
        {
            let message = "there is no token to ask for; set the environment variable \
                           TOLLGATE_CHECK_TOKEN, or name a file in check_token_file";
            layers.refuse("check_auth", message);
        }
        (Some(CheckAuth::Mtls), _)
            if settings.tls.as_ref().is_none_or(|files| files.client_ca.is_none()) =>
        {
            let message = "client certificates need an authority to check them by; name \
                           tls.client_ca, with tls.certificate and tls.key";
            layers.refuse("check_auth", message);
        }
        _ => {}
    }
    settings.check_auth = chosen.unwrap_or(CheckAuth::None);
    layers.resolved("check_auth", settings.check_auth.show());
}

/// A token must be hard to guess, and grant nothing that it is not meant for.
fn check_tokens(layers: &mut Layers<'_>, settings: &Settings, chosen: Option<CheckAuth>) {
    let check_token = settings.check_token.as_ref().map(Secret::expose);
    let admin_token = settings.admin_token.as_ref().map(Secret::expose);
    for (name, token) in [("check_token", check_token), ("admin_token", admin_token)] {
        if token.is_some_and(|token| token.len() < MIN_TOKEN_LENGTH) {
            let message = format!(
                "a token needs at least {MIN_TOKEN_LENGTH} characters, so that it cannot be \
                 guessed; make one with openssl rand -hex 32"
            );
            layers.refuse(name, message);
        }
    }
    if check_token.is_some() && check_token == admin_token {
        let message = "this is the check token too, so every caller of the check API could change \
                       everything; choose another";
        layers.refuse("admin_token", message);
    }
    if check_token.is_some() && chosen == Some(CheckAuth::Mtls) {
        let message = "with check_auth mtls, this token would open the check API to clients \
                       without a certificate; remove it, or choose check_auth token";
        layers.refuse("check_token", message);
    }
}

/// Whether only this machine can reach an address.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
