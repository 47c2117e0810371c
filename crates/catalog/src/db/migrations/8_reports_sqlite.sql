-- Views to report on, for SQLite. Times are text, in UTC.
CREATE VIEW rate_limit_rules AS
SELECT entry AS rule_id,
    json_extract(body, '$.name') AS name,
    json_extract(body, '$.limit') AS limit_count,
    window_ms / 1000.0 AS window_seconds,
    coalesce(json_extract(body, '$.algorithm'), 'sliding_window_counter') AS algorithm,
    (SELECT group_concat(value) FROM json_each(body, '$.identifier_type')) AS identifier_type,
    (SELECT group_concat(value) FROM json_each(body, '$.applies_to.endpoints')) AS endpoint_pattern,
    (SELECT group_concat(value) FROM json_each(body, '$.applies_to.methods')) AS http_methods,
    (SELECT group_concat(value) FROM json_each(body, '$.applies_to.user_tiers')) AS user_tiers,
    coalesce(json_extract(body, '$.action'), 'reject') AS action,
    coalesce(json_extract(body, '$.priority'), 0) AS priority,
    enabled = 1 AS is_active,
    strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', updated_at / 1000000, 'unixepoch') AS updated_at
FROM tollgate_rules;

CREATE VIEW user_tiers AS
SELECT entry AS tier,
    is_default = 1 AS is_default,
    (SELECT count(*) FROM tollgate_clients WHERE tollgate_clients.tier = tiers.entry) AS clients,
    strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000, 'unixepoch') AS created_at,
    created_by,
    strftime('%Y-%m-%dT%H:%M:%SZ', updated_at / 1000000, 'unixepoch') AS updated_at,
    updated_by
FROM tollgate_tiers AS tiers;

CREATE VIEW client_tiers AS
SELECT identifier_type,
    CASE WHEN identifier LIKE '%sha256:%' THEN 'redacted' ELSE identifier END AS identifier,
    tier,
    strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000, 'unixepoch') AS created_at,
    created_by,
    strftime('%Y-%m-%dT%H:%M:%SZ', updated_at / 1000000, 'unixepoch') AS updated_at,
    updated_by
FROM tollgate_clients;

CREATE VIEW rate_limit_whitelist AS
SELECT identifier_type,
    CASE WHEN identifier LIKE '%sha256:%' THEN 'redacted' ELSE identifier END AS identifier,
    tenant,
    reason,
    strftime('%Y-%m-%dT%H:%M:%SZ', expires_at / 1000000, 'unixepoch') AS expires_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000, 'unixepoch') AS created_at,
    created_by,
    strftime('%Y-%m-%dT%H:%M:%SZ', updated_at / 1000000, 'unixepoch') AS updated_at,
    updated_by
FROM tollgate_whitelist;

CREATE VIEW rate_limit_blacklist AS
SELECT identifier_type,
    CASE WHEN identifier LIKE '%sha256:%' THEN 'redacted' ELSE identifier END AS identifier,
    tenant,
    reason,
    strftime('%Y-%m-%dT%H:%M:%SZ', expires_at / 1000000, 'unixepoch') AS expires_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000, 'unixepoch') AS created_at,
    created_by,
    strftime('%Y-%m-%dT%H:%M:%SZ', updated_at / 1000000, 'unixepoch') AS updated_at,
    updated_by
FROM tollgate_blacklist;

CREATE VIEW rate_limit_audit_log AS
SELECT revision,
    strftime('%Y-%m-%dT%H:%M:%SZ', changed_at / 1000000, 'unixepoch') AS changed_at,
    actor,
    role,
    address,
    kind,
    CASE WHEN entry LIKE '%sha256:%' THEN 'redacted' ELSE entry END AS entry,
    tenant,
    action,
    CASE WHEN kind IN ('rule', 'tier') THEN was END AS old_value,
    CASE WHEN kind IN ('rule', 'tier') THEN becomes END AS new_value
FROM (
    SELECT revision, changed_at, actor, role, address, kind, entry, tenant,
        CASE WHEN was IS NULL THEN 'create' WHEN becomes IS NULL THEN 'delete' ELSE 'update' END AS action,
        was, becomes
    FROM tollgate_changes JOIN tollgate_revisions ON number = revision
    UNION ALL
    SELECT revision, changed_at, actor, role, address, 'counters', entry, tenant, 'reset', was, becomes
    FROM tollgate_resets) AS records;
