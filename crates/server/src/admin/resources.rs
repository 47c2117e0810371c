//! The entities of the admin API, one row each: where they are, which permissions they need, how they are documented.
//! A new entity is a row here, a variant of `Entry` and a migration.

use tollgate_catalog::Kind;
use utoipa::openapi::HttpMethod;

use crate::admin::auth::Right;

/// An entity of the admin API.
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    pub(crate) path: &'static str,
    /// Whether it is also under `/admin/api/v1/rate-limits/`.
    pub(crate) has_admin_path: bool,
    pub(crate) tag: &'static str,
    pub(crate) reader: Right,
    pub(crate) writer: Right,
    pub(crate) list: Option<ListCall>,
    pub(crate) item: Option<Item>,
    pub(crate) put: Option<Put>,
    pub(crate) delete: Option<Delete>,
}

/// How a call names one entry.
pub(crate) enum EntryKey {
    /// By the last segment of the path.
    Id(Id),
    /// By the client it is about, in the query.
    Client {
        /// The example of a rule, where entries belong to a rule and a client.
        rule: Option<&'static str>,
        types: &'static str,
        /// An example of a type, and of an identifier.
        example: (&'static str, &'static str),
    },
}

/// An id in the last segment of a path.
#[derive(Clone, Copy)]
pub(crate) struct Id {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) example: &'static str,
}

/// Calls that read, replace and patch one entry by its id.
pub(crate) struct Item {
    pub(crate) id: Id,
    pub(crate) get: &'static str,
    pub(crate) ok: &'static str,
    pub(crate) missing: &'static str,
    /// The id of an entry that every catalog has.
    pub(crate) example: &'static str,
    pub(crate) put: &'static str,
    pub(crate) patch: &'static str,
    pub(crate) fields: &'static str,
}

/// A call that lists entries.
pub(crate) struct ListCall {
    /// The summary, and in further paragraphs the description.
    pub(crate) about: &'static str,
    pub(crate) ok: &'static str,
    /// The parameters of the query besides `limit` and `after`, each with its description.
    pub(crate) query: &'static [(&'static str, &'static str)],
}

/// A call that creates or replaces an entry.
pub(crate) struct Put {
    pub(crate) method: HttpMethod,
    pub(crate) about: &'static str,
    pub(crate) body: &'static str,
    pub(crate) example: &'static str,
    pub(crate) created: &'static str,
    pub(crate) changed: &'static str,
    /// The schemas of responses after an entry was created, and changed or tried; any object if there are none.
    pub(crate) schemas: Option<(&'static str, &'static str)>,
    /// Advice for a tenant's administrator who wrote an entry of another tenant.
    pub(crate) advice: Option<&'static str>,
}

/// A call that removes an entry.
pub(crate) struct Delete {
    pub(crate) key: EntryKey,
    pub(crate) about: &'static str,
    pub(crate) removed: &'static str,
}

const RULE_ID: Id = Id { name: "rule_id", about: "The rule", example: "api_default" };
const DETAIL: (&str, &str) =
    ("detail", "Also return version, created_at, created_by, updated_at and updated_by");
pub(crate) const DETAIL_WITH_AUTHOR: (&str, &str) = (
    "detail",
    "Also return version, created_at, created_by, updated_at, updated_by, and written_by if a tenant-admin wrote it",
);
const TYPES: &str =
    "The type of its identifier; several for a client that is named by several at once";

/// All entities. Tiers are written as a list, see `tiers.rs`.
pub(crate) static RESOURCES: [&Resource; 8] =
    [&RULES, &WHITELIST, &BLACKLIST, &BANS, &OVERRIDES, &CLIENTS, &API_KEYS, &TOKENS];

pub(crate) static RULES: Resource = Resource {
    kind: Kind::Rule,
    path: "/api/v1/rules",
    has_admin_path: true,
    tag: "rules",
    reader: Right::RuleViewer,
    writer: Right::RuleEditor,
    list: Some(ListCall {
        about: "Lists the rules, in the order of their ids.",
        ok: "The rules, in a form that can be put into a file",
        query: &[
            ("tenant", "Only rules of this tenant"),
            ("enabled", "Only rules that are switched on, or off"),
            DETAIL_WITH_AUTHOR,
        ],
    }),
    item: Some(Item {
        id: RULE_ID,
        get: "Shows one rule.",
        ok: "The rule, as it was written; its version is the ETag",
        missing: "No such rule",
        example: "default_per_ip",
        put: "Creates a rule with that id, or changes it.",
        patch: "Changes some fields of a rule: a JSON merge patch, in which null removes a field.",
        fields: r#"{"limit": 2000}"#,
    }),
    put: Some(Put {
        method: HttpMethod::Post,
        about: "Creates a rule, or changes the one of that id.\n\n\
                `If-None-Match: *` makes sure that it is a new one; `If-Match` with an `ETag`, that it was not \
                changed\nmeanwhile.",
        body: "The rule",
        example: r#"{"rule_id": "api_default", "limit": 1000, "window": "1h", "identifier_type": "user_id"}"#,
        created: "Made",
        changed: "Changed, or what would be",
        schemas: Some(("RuleWritten", "RuleOrTrial")),
        advice: None,
    }),
    delete: Some(Delete {
        key: EntryKey::Id(RULE_ID),
        about: "Removes a rule. Its counters expire.",
        removed: "Removed",
    }),
};

pub(crate) static WHITELIST: Resource = listed(
    Kind::Whitelist,
    "/api/v1/whitelist",
    "Lists clients that are never limited.",
    "Puts a client on the list of those never limited, or changes reason and expiry.",
);

pub(crate) static BLACKLIST: Resource = listed(
    Kind::Blacklist,
    "/api/v1/blacklist",
    "Lists clients that are always refused.",
    "Puts a client on the list of those always refused, or changes reason and expiry.",
);

/// The row of the whitelist or of the blacklist, which differ in little.
const fn listed(kind: Kind, path: &'static str, list: &'static str, put: &'static str) -> Resource {
    Resource {
        kind,
        path,
        has_admin_path: true,
        tag: "lists",
        reader: Right::RuleViewer,
        writer: Right::RuleEditor,
        list: Some(ListCall {
            about: list,
            ok: "The entries, in the order of their names",
            query: &[
                DETAIL_WITH_AUTHOR,
                ("identifier_type", "Only entries with this type of identifier"),
                ("identifier", "Only the entry of this client"),
                ("tenant", "Only entries of this tenant"),
            ],
        }),
        item: None,
        put: Some(Put {
            method: HttpMethod::Post,
            about: put,
            body: "The client; for `ip` also a network. To name a client by several identifiers, give arrays",
            example: r#"{"identifier_type": "ip", "identifier": "10.0.0.0/8", "reason": "our own machines", "expires_at": "2030-12-01T00:00:00Z"}"#,
            created: "Put on the list",
            changed: "It was on the list: changed, or what would be",
            schemas: None,
            advice: Some("add the identifier_type `tenant`, and the tenant to the identifier"),
        }),
        delete: Some(Delete {
            key: EntryKey::Client { rule: None, types: TYPES, example: ("ip", "10.0.0.0/8") },
            about: "Takes a client off the list.",
            removed: "Taken off",
        }),
    }
}

pub(crate) static BANS: Resource = Resource {
    kind: Kind::Ban,
    path: "/api/v1/bans",
    has_admin_path: true,
    tag: "rules",
    reader: Right::RuleViewer,
    writer: Right::RuleEditor,
    list: Some(ListCall {
        about: "Lists the clients that rules have banned.\n\n\
                API keys and values of headers are shown as their SHA-256 digests.",
        ok: "The bans, in the order of their names",
        query: &[
            DETAIL,
            ("rule_id", "Only bans by this rule"),
            ("tenant", "Only bans by rules of this tenant"),
        ],
    }),
    item: None,
    put: None,
    delete: None,
};

pub(crate) static OVERRIDES: Resource = Resource {
    kind: Kind::Override,
    path: "/api/v1/overrides",
    has_admin_path: false,
    tag: "rules",
    reader: Right::RuleViewer,
    writer: Right::RuleEditor,
    list: Some(ListCall {
        about: "Lists exceptions from rules.",
        ok: "The exceptions, in the order of their names",
        query: &[
            DETAIL_WITH_AUTHOR,
            ("identifier_type", "Only those of clients that are named by this type of identifier"),
            ("identifier", "Only those of this client"),
            ("rule_id", "Only exceptions from this rule"),
            ("tenant", "Only exceptions from rules of this tenant"),
        ],
    }),
    item: None,
    put: Some(Put {
        method: HttpMethod::Put,
        about: "Makes an exception from a rule for a client, or changes it.",
        body: "The client, the rule, and what is different for it: limit, window_seconds, burst or multiplier",
        example: r#"{"identifier_type": "user_id", "identifier": "alice", "rule_id": "api_default", "limit": 5000, "expires_at": "2030-12-01T00:00:00Z"}"#,
        created: "Made",
        changed: "Changed, or what would be",
        schemas: None,
        advice: Some("name a rule of that tenant"),
    }),
    delete: Some(Delete {
        key: EntryKey::Client {
            rule: Some("api_default"),
            types: "The type of the client's identifier; several for a client that is named by several at once",
            example: ("user_id", "alice"),
        },
        about: "Removes an exception: the rule holds for that client as for others.",
        removed: "Removed",
    }),
};

pub(crate) static CLIENTS: Resource = Resource {
    kind: Kind::Client,
    path: "/api/v1/clients",
    has_admin_path: false,
    tag: "clients",
    reader: Right::Viewer,
    writer: Right::Operator,
    list: Some(ListCall {
        about: "Lists clients that were put into a tier.",
        ok: "The clients, in the order of their names",
        query: &[
            DETAIL,
            ("identifier_type", "Only clients that are named by this type of identifier"),
            ("identifier", "Only this client"),
            ("tier", "Only clients in this tier"),
        ],
    }),
    item: None,
    put: Some(Put {
        method: HttpMethod::Put,
        about: "Puts a client into a tier.",
        body: "The client and its tier",
        example: r#"{"identifier_type": "tenant", "identifier": "acme", "tier": "pro"}"#,
        created: "The client was put into the tier",
        changed: "The client was in a tier: changed, or what would be",
        schemas: None,
        advice: None,
    }),
    delete: Some(Delete {
        key: EntryKey::Client { rule: None, types: TYPES, example: ("tenant", "acme") },
        about: "Takes a client out of the tier it was put into.",
        removed: "The client was taken out of its tier",
    }),
};

pub(crate) static API_KEYS: Resource = Resource {
    kind: Kind::ApiKey,
    path: "/api/v1/api-keys",
    has_admin_path: false,
    tag: "keys and tokens",
    reader: Right::Viewer,
    writer: Right::Operator,
    list: None,
    item: None,
    put: None,
    delete: Some(Delete {
        key: EntryKey::Id(Id {
            name: "key_id",
            about: "The key, by its id",
            example: "0123456789ab",
        }),
        about: "Removes an API key: it identifies no client any more.",
        removed: "Removed",
    }),
};

pub(crate) static TOKENS: Resource = Resource {
    kind: Kind::Token,
    path: "/api/v1/tokens",
    has_admin_path: false,
    tag: "keys and tokens",
    reader: Right::Admin,
    writer: Right::Admin,
    list: None,
    item: None,
    put: None,
    delete: Some(Delete {
        key: EntryKey::Id(Id {
            name: "token_id",
            about: "The token, by its id",
            example: "0123456789ab",
        }),
        about: "Revokes a token: the next call with it is refused.\n\n\
                The last admin token cannot be revoked, unless the settings have another.",
        removed: "Revoked",
    }),
};
