CREATE TABLE run (
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
    PRIMARY KEY (task, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_by_ended ON run (ended) WHERE ended IS NOT NULL;
CREATE TABLE run_event (
    task    BLOB    NOT NULL,
    seq     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER task_takes_events AFTER DELETE ON task
BEGIN
    DELETE FROM run_event WHERE task = old.id;
    UPDATE run SET bytes = 0 WHERE task = old.id;
END;
