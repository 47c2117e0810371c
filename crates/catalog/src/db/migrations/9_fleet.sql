-- The secret that all nodes of the fleet have.
CREATE TABLE tollgate_fleet (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    secret TEXT NOT NULL CHECK (length(secret) >= 32)
);
