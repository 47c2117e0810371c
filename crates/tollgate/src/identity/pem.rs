//! A public key in PEM: text around the binary form of a key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The binary form of the only key in a text.
pub(super) fn public_key(text: &str) -> Result<Vec<u8>, String> {
    let advice = "it begins with -----BEGIN PUBLIC KEY-----";
    let (_, block) =
        text.split_once("-----BEGIN ").ok_or_else(|| format!("not a key in PEM: {advice}"))?;
    let (label, body) =
        block.split_once("-----").ok_or_else(|| format!("not a key in PEM: {advice}"))?;
    match label {
        "PUBLIC KEY" | "RSA PUBLIC KEY" => {}
        "CERTIFICATE" => {
            return Err("a certificate; take the key out of it with `openssl x509 -pubkey`".into());
        }
        label if label.ends_with("PRIVATE KEY") => {
            return Err("a private key; verifying tokens needs the public key only".into());
        }
        // The label is not shown: in a broken text, it may be the whole key.
        _ => return Err(format!("not a public key: {advice}")),
    }
    let (body, behind) = body
        .split_once(&format!("-----END {label}-----"))
        .ok_or_else(|| format!("-----END {label}----- is missing"))?;
    if behind.contains("-----BEGIN") {
        return Err("more than one key; for several, use a JWKS".into());
    }
    let body: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(body).map_err(|_| "what stands between BEGIN and END is not Base64".into())
}
