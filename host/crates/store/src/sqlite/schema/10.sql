DROP TRIGGER task_takes_events;
ALTER TABLE run RENAME TO run_by_id;
DROP INDEX run_by_ended;
CREATE TABLE run (
    seq         INTEGER PRIMARY KEY,
    task        BLOB    NOT NULL,
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
    bytes       INTEGER NOT NULL,
    UNIQUE (task, attempt)
) STRICT;
INSERT INTO run (task, attempt, tool, digest, owner, incarnation, created, started, ended, outcome, cpu_us, memory, bytes)
    SELECT task, attempt, tool, digest, owner, incarnation, created, started, ended, outcome, cpu_us, memory, bytes
    FROM run_by_id ORDER BY created;
DROP TABLE run_by_id;
CREATE INDEX run_by_ended ON run (ended) WHERE ended IS NOT NULL;
ALTER TABLE run_event RENAME TO run_event_by_id;
CREATE TABLE run_event (
    task    INTEGER NOT NULL REFERENCES task (seq) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO run_event (task, seq, attempt, at, kind, body)
    SELECT task.seq, event.seq, event.attempt, event.at, event.kind, event.body
    FROM task JOIN run_event_by_id AS event ON event.task = task.id ORDER BY task.seq, event.seq;
DROP TABLE run_event_by_id;
CREATE TRIGGER task_takes_events AFTER DELETE ON task
BEGIN
    UPDATE run SET bytes = 0 WHERE task = old.id;
END;
