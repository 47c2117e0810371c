-- API keys that count as an identity, and the tokens that open the admin API. Digests only.
CREATE TABLE tollgate_api_keys (
    entry TEXT PRIMARY KEY CHECK (length(entry) > 0),
    digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),
    owner TEXT,
    tier TEXT,
    tenant TEXT,
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL
);
CREATE INDEX tollgate_api_keys_by_owner ON tollgate_api_keys (owner, entry);
CREATE INDEX tollgate_api_keys_by_tier ON tollgate_api_keys (tier, entry);

CREATE TABLE tollgate_tokens (
    entry TEXT PRIMARY KEY CHECK (length(entry) > 0),
    digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),
    role TEXT NOT NULL CHECK (role IN ('admin', 'operator', 'viewer', 'caller', 'tenant-admin')),
    tenant TEXT,
    expires_at BIGINT,
    last_used BIGINT,
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    CHECK ((role = 'tenant-admin') = (tenant IS NOT NULL))
);
