ALTER TABLE task ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE task SET bytes = octet_length(record) + coalesce(octet_length(outcome), 0)
    + coalesce(octet_length(arguments), (SELECT octet_length(body) FROM arguments WHERE task = seq), 0);
DROP INDEX task_by_owner_updated;
CREATE INDEX task_by_owner_updated ON task (owner, updated, id, created, bytes);
