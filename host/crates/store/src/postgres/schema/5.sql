ALTER TABLE task ADD COLUMN seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY;

ALTER TABLE run ADD COLUMN task_seq bigint;
UPDATE run SET task_seq = task.seq FROM task WHERE task.id = run.task;
ALTER TABLE run DROP CONSTRAINT run_pkey;
DROP INDEX run_by_ended;
CREATE UNIQUE INDEX run_by_task ON run (task_seq, attempt) WHERE task_seq IS NOT NULL;
CREATE INDEX left_run_by_task ON run (task) WHERE task_seq IS NULL;
CREATE INDEX left_run_by_ended ON run (ended) WHERE task_seq IS NULL;

ALTER TABLE run_event DROP CONSTRAINT run_event_pkey;
ALTER TABLE run_event RENAME TO run_event_by_id;
CREATE TABLE run_event (
    task    bigint   NOT NULL,
    seq     bigint   NOT NULL,
    attempt bigint   NOT NULL,
    at      bigint   NOT NULL,
    kind    smallint NOT NULL,
    body    bytea    NOT NULL,
    PRIMARY KEY (task, seq)
);
INSERT INTO run_event
    SELECT task.seq, event.seq, event.attempt, event.at, event.kind, event.body
    FROM run_event_by_id AS event JOIN task ON task.id = event.task ORDER BY task.seq, event.seq;
DROP TABLE run_event_by_id;
