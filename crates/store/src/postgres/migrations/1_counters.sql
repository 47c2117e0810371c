-- One row for each counter. An empty state is none: the row was made to be locked.
--
-- UNLOGGED: after a crash of the server the counters are gone, as those of a Redis are that was
-- restarted. Nobody has to wait for a disk in return.
--
-- Every charge writes the row anew. Half of each page is left free for that, and no index has a column
-- that changes, so that an update stays in its page and costs no index anything (HOT).
CREATE UNLOGGED TABLE tollgate_counters (
    name       text COLLATE "C" PRIMARY KEY,
    state      text NOT NULL,
    -- Microseconds since 1970. From then on the state is worth nothing.
    expires_at bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
