-- What an attempt says of itself while it runs, in chunks. They are only inserted,
-- and touch no row that a dequeue reads.
CREATE TABLE backup_logs (
    seq     bigint NOT NULL REFERENCES backups ON DELETE CASCADE,
    attempt int NOT NULL,
    chunk   int NOT NULL CHECK (chunk >= 0),
    at      timestamptz NOT NULL,
    text    text NOT NULL CHECK (octet_length(text) <= 65536),
    PRIMARY KEY (seq, attempt, chunk)
);

-- What the last attempt that took the backup whole wrote: its artefacts, each with
-- name, object, size and sha256, and how many objects of each kind.
CREATE TABLE archives (
    seq       bigint PRIMARY KEY REFERENCES backups ON DELETE CASCADE,
    fence     bigint NOT NULL,
    artifacts jsonb NOT NULL,
    kinds     jsonb NOT NULL
);
