-- Finds a logged decision by its id, so that every node can explain those of the others.
CREATE INDEX tollgate_decision_log_by_id ON tollgate_decision_log (decision_id);
