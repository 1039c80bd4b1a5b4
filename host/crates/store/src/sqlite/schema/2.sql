DROP INDEX task_by_owner_updated;
DROP INDEX task_by_status_created;
DROP INDEX task_by_status_updated;
CREATE INDEX task_by_owner_updated  ON task (owner, updated, id, created);
CREATE INDEX task_by_status_created ON task (owner, status, created, id, updated);
CREATE INDEX task_by_status_updated ON task (owner, status, updated, id, created);

CREATE TABLE span (longest INTEGER NOT NULL) STRICT;
INSERT INTO span SELECT coalesce(max(updated - created), 0) FROM task;
