-- Who wrote an entry: the tenant whose administrators did, or NULL for operators. Only these kinds can be written by
-- administrators of a tenant. Bans belong to the author of their rule.
ALTER TABLE tollgate_changes ADD COLUMN author_tenant TEXT;
ALTER TABLE tollgate_rules ADD COLUMN author_tenant TEXT;
ALTER TABLE tollgate_overrides ADD COLUMN author_tenant TEXT;
ALTER TABLE tollgate_blacklist ADD COLUMN author_tenant TEXT;

-- Taken from the log, as far as it goes back. All other entries are the operators'.
UPDATE tollgate_changes SET author_tenant = tenant
    WHERE tenant IS NOT NULL
    AND revision IN (SELECT number FROM tollgate_revisions WHERE role = 'tenant-admin');
UPDATE tollgate_rules SET author_tenant = tenant
    WHERE EXISTS (SELECT 1 FROM tollgate_changes AS last
        WHERE last.kind = 'rule' AND last.entry = tollgate_rules.entry
        AND last.revision = tollgate_rules.version
        AND last.author_tenant = tollgate_rules.tenant);
-- An override belongs to administrators of a tenant only if its rule does too.
UPDATE tollgate_overrides SET author_tenant = tenant
    WHERE EXISTS (SELECT 1 FROM tollgate_changes AS last
        WHERE last.kind = 'override' AND last.entry = tollgate_overrides.entry
        AND last.revision = tollgate_overrides.version
        AND last.author_tenant = tollgate_overrides.tenant)
    AND rule_id IN (SELECT entry FROM tollgate_rules WHERE author_tenant IS NOT NULL);
UPDATE tollgate_blacklist SET author_tenant = tenant
    WHERE EXISTS (SELECT 1 FROM tollgate_changes AS last
        WHERE last.kind = 'blacklist' AND last.entry = tollgate_blacklist.entry
        AND last.revision = tollgate_blacklist.version
        AND last.author_tenant = tollgate_blacklist.tenant);
