-- Clients that kept exceeding a limit, and are refused by its rule for a while.
CREATE TABLE tollgate_bans (
    entry TEXT PRIMARY KEY,
    rule_id TEXT NOT NULL,
    identifier TEXT NOT NULL,
    tenant TEXT,
    expires_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL
);
CREATE INDEX tollgate_bans_by_rule ON tollgate_bans (rule_id, entry);
CREATE INDEX tollgate_bans_by_tenant ON tollgate_bans (tenant, entry);
CREATE INDEX tollgate_bans_by_end ON tollgate_bans (expires_at);
