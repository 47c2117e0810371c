-- Requests that were judged, with how much room each takes, in all and by client, so that the log is bounded.
-- In SQLite it is a separate file beside the catalog. Earlier versions kept it in tollgate_decisions.
CREATE TABLE tollgate_decision_log (
    decided_at BIGINT NOT NULL,
    decision_id TEXT NOT NULL,
    action TEXT NOT NULL,
    rule_id TEXT,
    client TEXT NOT NULL,
    tenant TEXT,
    body TEXT NOT NULL,
    bytes BIGINT NOT NULL CHECK (bytes > 0),
    PRIMARY KEY (decided_at, decision_id)
);
CREATE INDEX tollgate_decision_log_by_client
    ON tollgate_decision_log (client, decided_at, decision_id);
CREATE INDEX tollgate_decision_log_by_rule
    ON tollgate_decision_log (rule_id, decided_at, decision_id);
CREATE INDEX tollgate_decision_log_by_action
    ON tollgate_decision_log (action, decided_at, decision_id);
CREATE INDEX tollgate_decision_log_by_tenant
    ON tollgate_decision_log (tenant, decided_at, decision_id) WHERE tenant IS NOT NULL;

CREATE TABLE tollgate_decision_clients (
    client TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL
);
CREATE INDEX tollgate_decision_clients_by_bytes ON tollgate_decision_clients (bytes);

CREATE TABLE tollgate_decision_total (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    bytes BIGINT NOT NULL
);
INSERT INTO tollgate_decision_total (only_row, bytes) VALUES (1, 0);
