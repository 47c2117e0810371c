-- When an entry was last written, and by whom. NULL for entries from before this version whose last change the audit log
-- does not have any more.
ALTER TABLE tollgate_rules ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_rules ADD COLUMN updated_by TEXT;
ALTER TABLE tollgate_tiers ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_tiers ADD COLUMN updated_by TEXT;
ALTER TABLE tollgate_clients ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_clients ADD COLUMN updated_by TEXT;
ALTER TABLE tollgate_overrides ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_overrides ADD COLUMN updated_by TEXT;
ALTER TABLE tollgate_whitelist ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_whitelist ADD COLUMN updated_by TEXT;
ALTER TABLE tollgate_blacklist ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_blacklist ADD COLUMN updated_by TEXT;
ALTER TABLE tollgate_api_keys ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_api_keys ADD COLUMN updated_by TEXT;
ALTER TABLE tollgate_tokens ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_tokens ADD COLUMN updated_by TEXT;
ALTER TABLE tollgate_bans ADD COLUMN updated_at BIGINT;
ALTER TABLE tollgate_bans ADD COLUMN updated_by TEXT;

-- The version of an entry is the revision that wrote it last.
UPDATE tollgate_rules SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);
UPDATE tollgate_tiers SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);
UPDATE tollgate_clients SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);
UPDATE tollgate_overrides SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);
UPDATE tollgate_whitelist SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);
UPDATE tollgate_blacklist SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);
UPDATE tollgate_api_keys SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);
UPDATE tollgate_tokens SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);
UPDATE tollgate_bans SET
    updated_at = (SELECT changed_at FROM tollgate_revisions WHERE number = version),
    updated_by = (SELECT actor FROM tollgate_revisions WHERE number = version);

-- The window of a rule, which its text may give as `1h30m`.
ALTER TABLE tollgate_rules ADD COLUMN window_ms BIGINT;

-- What a revision was for, if it was a rollback.
ALTER TABLE tollgate_revisions ADD COLUMN note TEXT;
