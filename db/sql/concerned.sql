-- The queued backups whose claim may change with these namespaces: those with
-- a pattern, and where the exclude label of a namespace changed, those that
-- name it and every everything-but. Behind the gate, where nobody else changes
-- a queued backup.
SELECT seq, spec FROM backups
 WHERE cluster_id = @cluster_id AND phase = 'Queued'
   AND (has_pattern OR (cardinality(@relabelled::text[]) > 0
        AND (scope = 'everything-but' OR spec -> 'includedNamespaces' ?| @relabelled::text[])))
