-- Finds logged decisions by the further shadow rules and candidates that would have refused the request. They are removed with
-- the decision.
CREATE TABLE tollgate_decision_rules (
    shadow_rule_id TEXT NOT NULL,
    decided_at BIGINT NOT NULL,
    decision_id TEXT NOT NULL,
    PRIMARY KEY (shadow_rule_id, decided_at, decision_id),
    FOREIGN KEY (decided_at, decision_id)
        REFERENCES tollgate_decision_log (decided_at, decision_id) ON DELETE CASCADE
);
CREATE INDEX tollgate_decision_rules_by_decision
    ON tollgate_decision_rules (decided_at, decision_id);
