-- Resets of counters: who, when, from where. They change nothing in the catalog, so they make no revision
-- and follow the changes of the one that was in force.
CREATE TABLE tollgate_resets (
    revision BIGINT NOT NULL CHECK (revision >= 0),
    place BIGINT NOT NULL CHECK (place > 0),
    changed_at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    role TEXT NOT NULL,
    address TEXT,
    entry TEXT NOT NULL,
    tenant TEXT,
    was TEXT NOT NULL,
    becomes TEXT NOT NULL,
    PRIMARY KEY (revision, place)
);
CREATE INDEX tollgate_resets_by_time ON tollgate_resets (changed_at);
CREATE INDEX tollgate_resets_by_entry ON tollgate_resets (entry, revision);
CREATE INDEX tollgate_resets_by_tenant ON tollgate_resets (tenant, revision);
