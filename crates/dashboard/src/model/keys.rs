//! API keys, which identify clients, and tokens for this server.

use super::shared::{Paging, Section};
use super::time::Time;

/// The page of keys and tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys {
    /// A token or key that was created by the last form. It is shown once.
    pub created: Option<CreatedSecret>,
    /// The API keys.
    pub api_keys: Section<Vec<ApiKeyRow>>,
    /// The way to the other API keys.
    pub api_keys_paging: Paging,
    /// The tokens; none if the viewer may not see them.
    pub tokens: Option<Section<Vec<TokenRow>>>,
    /// The way to the other tokens.
    pub tokens_paging: Paging,
    /// The roles that a token can have.
    pub roles: Vec<String>,
    /// The tiers that a key can have.
    pub tiers: Vec<String>,
}

/// A secret that was created a moment ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreatedSecret {
    /// What it is: "token" or "API key".
    pub kind: String,
    /// Its id.
    pub id: String,
    /// The secret itself.
    pub secret: String,
}

/// An API key, without the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// Its id.
    pub key_id: String,
    /// What it is for.
    pub name: Option<String>,
    /// The user it belongs to.
    pub owner: Option<String>,
    /// The tier of its requests.
    pub tier: Option<String>,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
    /// When it was created.
    pub created_at: Option<Time>,
    /// The token that created it.
    pub created_by: Option<String>,
}

/// A token, without its secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRow {
    /// Its id.
    pub token_id: String,
    /// What it is for.
    pub name: Option<String>,
    /// What its holder may do.
    pub role: String,
    /// The only tenant that its holder sees.
    pub tenant: Option<String>,
    /// When it was created.
    pub created_at: Option<Time>,
    /// The token that created it.
    pub created_by: Option<String>,
    /// When it expires.
    pub expires_at: Option<Time>,
    /// When it was last used.
    pub last_used: Option<Time>,
    /// Whether the viewer is signed in with it.
    pub is_own: bool,
}
