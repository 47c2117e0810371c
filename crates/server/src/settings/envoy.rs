//! Settings of Envoy's rate limit service.

use tollgate::http::HeaderFamilies;
use tollgate_import::envoy::RepeatedDomain;

use super::layers::Layers;
use super::value::Choice;

/// How files of envoyproxy/ratelimit are read, and what Envoy receives.
#[derive(Clone, Copy, Debug)]
pub struct EnvoySettings {
    /// The header fields in responses to Envoy. None by default: Envoy writes its own `x-ratelimit-*`
    /// fields if `enable_x_ratelimit_headers` says so, and would send both.
    pub headers: HeaderFamilies,
    /// Whether files with the same domain are one; otherwise that is an error.
    pub merge_domains: bool,
    /// Whether refusals have a body, which is as at the gateway. By default not, as in envoyproxy/ratelimit: clients
    /// would learn the ids of rules.
    pub refusal_body: bool,
}

impl EnvoySettings {
    /// Whether a domain may be in several files.
    #[must_use]
    pub const fn repeated_domain(self) -> RepeatedDomain {
        if self.merge_domains { RepeatedDomain::Merged } else { RepeatedDomain::Refused }
    }
}

impl Default for EnvoySettings {
    fn default() -> Self {
        Self { headers: HeaderFamilies::none(), merge_domains: false, refusal_body: false }
    }
}

pub(super) fn read(layers: &mut Layers<'_>, settings: &mut EnvoySettings) {
    layers.read("envoy.headers", &mut settings.headers);
    layers.read("envoy.merge_domains", &mut settings.merge_domains);
    layers.read("envoy.refusal_body", &mut settings.refusal_body);
}

impl Choice for bool {
    const ALL: &'static [(&'static str, Self)] = &[("true", true), ("false", false)];
}
