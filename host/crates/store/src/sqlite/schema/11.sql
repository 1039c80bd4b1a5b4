DROP TRIGGER task_takes_events;
DROP INDEX run_by_ended;
ALTER TABLE run RENAME TO run_by_id;
CREATE TABLE run (
    seq         INTEGER PRIMARY KEY,
    task        BLOB    NOT NULL,
    task_seq    INTEGER,
    attempt     INTEGER NOT NULL,
    tool        TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    owner       TEXT    NOT NULL,
    incarnation INTEGER NOT NULL,
    created     INTEGER NOT NULL,
    started     INTEGER,
    ended       INTEGER,
    outcome     TEXT,
    cpu_us      INTEGER,
    memory      INTEGER,
    bytes       INTEGER NOT NULL
) STRICT;
INSERT INTO run
    SELECT seq, task, (SELECT seq FROM task WHERE id = run_by_id.task), attempt, tool, digest, owner, incarnation,
           created, started, ended, outcome, cpu_us, memory, bytes
    FROM run_by_id ORDER BY seq;
DROP TABLE run_by_id;
CREATE UNIQUE INDEX run_by_task ON run (task_seq, attempt) WHERE task_seq IS NOT NULL;
CREATE INDEX left_run_by_task ON run (task) WHERE task_seq IS NULL;
CREATE INDEX left_run_by_ended ON run (ended) WHERE task_seq IS NULL;
CREATE TRIGGER task_leaves_runs AFTER DELETE ON task
BEGIN
    UPDATE run SET task_seq = NULL, bytes = 0 WHERE task_seq = old.seq;
END;
