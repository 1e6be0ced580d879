-- Pods whose pre hooks have begun and whose post hooks have not ended: what a
-- later attempt has to thaw before it does anything else.
CREATE TABLE frozen_pods (
    seq       bigint NOT NULL REFERENCES backups ON DELETE CASCADE,
    namespace text NOT NULL,
    name      text NOT NULL,
    uid       text NOT NULL,
    attempt   int NOT NULL,
    since     timestamptz NOT NULL,
    PRIMARY KEY (seq, uid)
);

-- Commands that a run executed in pods.
ALTER TABLE progress
    ADD COLUMN hooks_attempted int NOT NULL DEFAULT 0,
    ADD COLUMN hooks_failed    int NOT NULL DEFAULT 0;
