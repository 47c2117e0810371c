//! The name of a client of a record, as the audit log has it: its user, else its API key, its address, its tenant, or
//! all else that rules count it by.

use std::borrow::Cow;
use std::net::IpAddr;

use super::hidden::digest_text;
use super::record::{RecordField, RecordFields, tag};
use crate::observe::audit_log::shortened;

/// How many bytes of a digest are shown.
const SHOWN_OF_DIGEST: usize = 6;

/// What names a client: a field, or else the whole run.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientKey<'a> {
    pub(super) tenant: Option<&'a [u8]>,
    named: Option<RecordField<'a>>,
    client: &'a [u8],
}

impl<'a> ClientKey<'a> {
    /// Reads the fields of a client, whose secrets are hidden.
    pub(super) fn new(client: &'a [u8]) -> Self {
        let mut key = Self { tenant: None, named: None, client };
        // Fields are in the order of their tags.
        for field in RecordFields(client).take_while(|field| field.kind() <= tag::TENANT) {
            if field.kind() == tag::TENANT {
                key.tenant = Some(field.value);
            }
            key.named = key.named.or(Some(field));
        }
        key
    }

    /// The bytes that tell this client from others of its tenant.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.named.map_or(self.client, |field| field.value)
    }

    pub(super) fn tenant_text(&self) -> Option<&'a str> {
        self.tenant.map(|tenant| str::from_utf8(tenant).unwrap_or_default())
    }

    /// The name, as it is shown.
    pub(super) fn name(&self) -> Cow<'a, str> {
        match self.named {
            Some(field) if field.kind() == tag::IP => match field.value_text().parse::<IpAddr>() {
                Ok(IpAddr::V6(address)) => IpAddr::V6(address).to_canonical().to_string().into(),
                _ => field.value_text().into(),
            },
            Some(field) => shown(&field),
            None => {
                let counted = |it: &RecordField<'_>| it.tag & tag::COUNTED != 0;
                let others = RecordFields(self.client).filter(counted);
                let values: Vec<Cow<'_, str>> = others.map(|it| shown(&it)).collect();
                if values.is_empty() {
                    return "*".into();
                }
                shortened(&values.join(",")).to_owned().into()
            }
        }
    }
}

/// The value of a field, as it is shown.
fn shown<'a>(field: &RecordField<'a>) -> Cow<'a, str> {
    if field.is_hidden() {
        digest_text(field.value, SHOWN_OF_DIGEST).into()
    } else {
        field.value_text().into()
    }
}
