-- Finds logged decisions by the API key and the address of a client that has another name. Rows of earlier versions have neither.
ALTER TABLE tollgate_decision_log ADD COLUMN api_key TEXT;
ALTER TABLE tollgate_decision_log ADD COLUMN ip TEXT;
CREATE INDEX tollgate_decision_log_by_api_key
    ON tollgate_decision_log (api_key, decided_at, decision_id) WHERE api_key IS NOT NULL;
CREATE INDEX tollgate_decision_log_by_ip
    ON tollgate_decision_log (ip, decided_at, decision_id) WHERE ip IS NOT NULL;
