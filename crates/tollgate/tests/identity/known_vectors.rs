//! The examples that the standards print, so that more than our own signatures are verified.

use tollgate::Timestamp;
use tollgate::identity::{IdentityConfig, JwtConfig, TokenKeys};

use crate::{at_once, extractor, holder, key_file};

/// The user of a token, where the issuer counts as the user: the examples have no other name.
fn check(key: &str, token: &str, now: u64, expected: &str) {
    let file = key_file(&format!(r#"{{"keys":[{key}]}}"#));
    let mut jwt = JwtConfig::new(TokenKeys::JwksFile(file.path().to_owned()));
    jwt.user_claim = "iss".to_owned();
    let extractor = extractor(IdentityConfig { jwt: Some(jwt), ..IdentityConfig::default() });
    let found = at_once(holder(&extractor, token, Timestamp::from_secs(now)));
    assert_eq!(found, expected, "{token}");
}

/// From RFC 7515, appendices A.2 and A.3: valid until some time in 2011.
const JOE: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const EXPIRY: u64 = 1_300_819_380;

#[test]
fn rsa() {
    let key = r#"{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#;
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let token = format!("eyJhbGciOiJSUzI1NiJ9.{JOE}.{signature}");
    check(key, &token, EXPIRY, "joe");
    check(key, &token, EXPIRY + 30, "Expired");
}

#[test]
fn p256() {
    let key = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    let signature =
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let token = format!("eyJhbGciOiJFUzI1NiJ9.{JOE}.{signature}");
    check(key, &token, EXPIRY, "joe");
    check(key, &token, EXPIRY + 30, "Expired");
}

/// RFC 8037, appendix A.4, signs a sentence and not claims: that it is malformed is only seen when
/// the signature was right.
#[test]
fn ed25519() {
    let key = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    let signature =
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    check(key, &format!("{message}.{signature}"), EXPIRY, "Malformed");
    let other = signature.replace('h', "i");
    check(key, &format!("{message}.{other}"), EXPIRY, "Signature");
}
