-- Requests that were judged: all that were refused or held back, and a sample of the others.
CREATE TABLE tollgate_decisions (
    decided_at BIGINT NOT NULL,
    decision_id TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('refused', 'denied', 'throttled', 'allowed')),
    rule_id TEXT,
    client TEXT NOT NULL,
    tenant TEXT,
    body TEXT NOT NULL,
    PRIMARY KEY (decided_at, decision_id)
);
CREATE INDEX tollgate_decisions_by_client
    ON tollgate_decisions (client, decided_at, decision_id);
CREATE INDEX tollgate_decisions_by_rule
    ON tollgate_decisions (rule_id, decided_at, decision_id);
CREATE INDEX tollgate_decisions_by_action
    ON tollgate_decisions (action, decided_at, decision_id);
CREATE INDEX tollgate_decisions_by_tenant
    ON tollgate_decisions (tenant, decided_at, decision_id) WHERE tenant IS NOT NULL;
