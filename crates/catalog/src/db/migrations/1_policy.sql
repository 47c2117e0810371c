-- Which state of which catalog this is.
CREATE TABLE tollgate_catalog (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    epoch BIGINT NOT NULL CHECK (epoch > 0),
    revision BIGINT NOT NULL CHECK (revision >= 0),
    stamp BIGINT NOT NULL
);

-- Every change: who, when, from where.
CREATE TABLE tollgate_revisions (
    number BIGINT PRIMARY KEY CHECK (number > 0),
    stamp BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    role TEXT NOT NULL,
    address TEXT
);
CREATE INDEX tollgate_revisions_by_time ON tollgate_revisions (changed_at);

-- What it changed, entry by entry.
CREATE TABLE tollgate_changes (
    revision BIGINT NOT NULL REFERENCES tollgate_revisions (number) ON DELETE CASCADE,
    place BIGINT NOT NULL CHECK (place >= 0),
    kind TEXT NOT NULL,
    entry TEXT NOT NULL,
    tenant TEXT,
    was TEXT,
    becomes TEXT,
    PRIMARY KEY (revision, place),
    CHECK (was IS NOT NULL OR becomes IS NOT NULL)
);
CREATE INDEX tollgate_changes_by_entry ON tollgate_changes (kind, entry, revision);
CREATE INDEX tollgate_changes_by_tenant ON tollgate_changes (tenant, revision);

CREATE TABLE tollgate_rules (
    entry TEXT PRIMARY KEY CHECK (length(entry) BETWEEN 1 AND 100),
    tenant TEXT,
    enabled BIGINT NOT NULL CHECK (enabled IN (0, 1)),
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL
);
CREATE INDEX tollgate_rules_by_tenant ON tollgate_rules (tenant, entry);

CREATE TABLE tollgate_tiers (
    entry TEXT PRIMARY KEY CHECK (length(entry) > 0),
    is_default BIGINT NOT NULL CHECK (is_default IN (0, 1)),
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL
);
CREATE UNIQUE INDEX tollgate_tiers_one_default ON tollgate_tiers (is_default) WHERE is_default = 1;

CREATE TABLE tollgate_clients (
    entry TEXT PRIMARY KEY,
    identifier_type TEXT NOT NULL CHECK (length(identifier_type) > 0),
    identifier TEXT NOT NULL CHECK (length(identifier) > 0),
    tier TEXT NOT NULL CHECK (length(tier) > 0),
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    UNIQUE (identifier_type, identifier)
);
CREATE INDEX tollgate_clients_by_tier ON tollgate_clients (tier, entry);

CREATE TABLE tollgate_overrides (
    entry TEXT PRIMARY KEY,
    rule_id TEXT NOT NULL REFERENCES tollgate_rules (entry),
    identifier_type TEXT NOT NULL CHECK (length(identifier_type) > 0),
    identifier TEXT NOT NULL CHECK (length(identifier) > 0),
    tenant TEXT,
    expires_at BIGINT,
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    UNIQUE (identifier_type, identifier, rule_id)
);
CREATE INDEX tollgate_overrides_by_rule ON tollgate_overrides (rule_id, entry);
CREATE INDEX tollgate_overrides_by_tenant ON tollgate_overrides (tenant, entry);

CREATE TABLE tollgate_whitelist (
    entry TEXT PRIMARY KEY,
    identifier_type TEXT NOT NULL CHECK (length(identifier_type) > 0),
    identifier TEXT NOT NULL CHECK (length(identifier) > 0),
    tenant TEXT,
    reason TEXT,
    expires_at BIGINT,
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    UNIQUE (identifier_type, identifier)
);
CREATE INDEX tollgate_whitelist_by_tenant ON tollgate_whitelist (tenant, entry);

CREATE TABLE tollgate_blacklist (
    entry TEXT PRIMARY KEY,
    identifier_type TEXT NOT NULL CHECK (length(identifier_type) > 0),
    identifier TEXT NOT NULL CHECK (length(identifier) > 0),
    tenant TEXT,
    reason TEXT,
    expires_at BIGINT,
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    UNIQUE (identifier_type, identifier)
);
CREATE INDEX tollgate_blacklist_by_tenant ON tollgate_blacklist (tenant, entry);
