CREATE TABLE task (
    seq         INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL UNIQUE,
    owner       TEXT    NOT NULL,
    session     TEXT,
    status      INTEGER NOT NULL,
    created     INTEGER NOT NULL,
    updated     INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    record      TEXT    NOT NULL,
    arguments   BLOB,
    outcome     BLOB
) STRICT;
CREATE TABLE arguments (
    task INTEGER PRIMARY KEY REFERENCES task (seq) ON DELETE CASCADE,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX task_by_created           ON task (created, id);
CREATE INDEX task_by_owner_created     ON task (owner, created, id);
CREATE INDEX task_by_owner_updated     ON task (owner, updated, id);
CREATE INDEX task_by_status_created    ON task (owner, status, created, id);
CREATE INDEX task_by_status_updated    ON task (owner, status, updated, id);
CREATE INDEX task_by_due               ON task (due, id);
CREATE INDEX live_task_by_incarnation  ON task (incarnation, id, status) WHERE status <= 2;
CREATE INDEX live_task_by_session      ON task (session) WHERE status <= 2 AND session IS NOT NULL;

CREATE TABLE session (
    id     TEXT    PRIMARY KEY,
    seen   INTEGER NOT NULL,
    record TEXT    NOT NULL
) STRICT;
CREATE INDEX session_by_seen ON session (seen, id);

CREATE TABLE node (
    incarnation INTEGER PRIMARY KEY AUTOINCREMENT,
    pid         INTEGER NOT NULL,
    started     INTEGER NOT NULL
) STRICT;

CREATE TABLE key (
    use     TEXT    NOT NULL,
    id      INTEGER NOT NULL,
    secret  BLOB    NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (use, id)
) STRICT;
