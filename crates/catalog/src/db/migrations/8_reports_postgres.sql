-- Views to report on, for PostgreSQL. A body may have an escaped zero byte, which PostgreSQL cannot show as text.
CREATE VIEW rate_limit_rules AS
SELECT entry AS rule_id,
    body ->> 'name' AS name,
    (body ->> 'limit')::BIGINT AS limit_count,
    (window_ms / 1000.0)::DOUBLE PRECISION AS window_seconds,
    coalesce(body ->> 'algorithm', 'sliding_window_counter') AS algorithm,
    CASE json_typeof(body -> 'identifier_type')
        WHEN 'array' THEN (SELECT string_agg(value, ',')
            FROM json_array_elements_text(body -> 'identifier_type'))
        ELSE body ->> 'identifier_type' END AS identifier_type,
    (SELECT string_agg(value, ',')
        FROM json_array_elements_text(body -> 'applies_to' -> 'endpoints')) AS endpoint_pattern,
    (SELECT string_agg(value, ',')
        FROM json_array_elements_text(body -> 'applies_to' -> 'methods')) AS http_methods,
    (SELECT string_agg(value, ',')
        FROM json_array_elements_text(body -> 'applies_to' -> 'user_tiers')) AS user_tiers,
    coalesce(body ->> 'action', 'reject') AS action,
    coalesce((body ->> 'priority')::BIGINT, 0) AS priority,
    enabled = 1 AS is_active,
    TIMESTAMPTZ 'epoch' + created_at * INTERVAL '1 microsecond' AS created_at,
    TIMESTAMPTZ 'epoch' + updated_at * INTERVAL '1 microsecond' AS updated_at
FROM (SELECT entry, enabled, window_ms, created_at, updated_at,
    replace(body, '\u0000', '\ufffd')::JSON AS body FROM tollgate_rules) AS rules;

CREATE VIEW user_tiers AS
SELECT entry AS tier,
    is_default = 1 AS is_default,
    (SELECT count(*) FROM tollgate_clients WHERE tollgate_clients.tier = tiers.entry) AS clients,
    TIMESTAMPTZ 'epoch' + created_at * INTERVAL '1 microsecond' AS created_at,
    created_by,
    TIMESTAMPTZ 'epoch' + updated_at * INTERVAL '1 microsecond' AS updated_at,
    updated_by
FROM tollgate_tiers AS tiers;

CREATE VIEW client_tiers AS
SELECT identifier_type,
    CASE WHEN identifier LIKE '%sha256:%' THEN 'redacted' ELSE identifier END AS identifier,
    tier,
    TIMESTAMPTZ 'epoch' + created_at * INTERVAL '1 microsecond' AS created_at,
    created_by,
    TIMESTAMPTZ 'epoch' + updated_at * INTERVAL '1 microsecond' AS updated_at,
    updated_by
FROM tollgate_clients;

CREATE VIEW rate_limit_whitelist AS
SELECT identifier_type,
    CASE WHEN identifier LIKE '%sha256:%' THEN 'redacted' ELSE identifier END AS identifier,
    tenant,
    reason,
    TIMESTAMPTZ 'epoch' + expires_at * INTERVAL '1 microsecond' AS expires_at,
    TIMESTAMPTZ 'epoch' + created_at * INTERVAL '1 microsecond' AS created_at,
    created_by,
    TIMESTAMPTZ 'epoch' + updated_at * INTERVAL '1 microsecond' AS updated_at,
    updated_by
FROM tollgate_whitelist;

CREATE VIEW rate_limit_blacklist AS
SELECT identifier_type,
    CASE WHEN identifier LIKE '%sha256:%' THEN 'redacted' ELSE identifier END AS identifier,
    tenant,
    reason,
    TIMESTAMPTZ 'epoch' + expires_at * INTERVAL '1 microsecond' AS expires_at,
    TIMESTAMPTZ 'epoch' + created_at * INTERVAL '1 microsecond' AS created_at,
    created_by,
    TIMESTAMPTZ 'epoch' + updated_at * INTERVAL '1 microsecond' AS updated_at,
    updated_by
FROM tollgate_blacklist;

CREATE VIEW rate_limit_audit_log AS
SELECT revision,
    TIMESTAMPTZ 'epoch' + changed_at * INTERVAL '1 microsecond' AS changed_at,
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
