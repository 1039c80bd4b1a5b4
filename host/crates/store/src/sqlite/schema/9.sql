ALTER TABLE task ADD COLUMN wake INTEGER;
CREATE INDEX parked_task ON task (wake, id, owner) WHERE wake IS NOT NULL;
CREATE TABLE journal (
    task        INTEGER PRIMARY KEY REFERENCES task (seq) ON DELETE CASCADE,
    incarnation INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    next        INTEGER NOT NULL,
    entries     INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    component   TEXT    NOT NULL
) STRICT;
CREATE INDEX journal_by_component ON journal (component);
CREATE TABLE journal_chunk (
    seq     INTEGER PRIMARY KEY,
    task    INTEGER NOT NULL REFERENCES journal (task) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    UNIQUE (task, number)
) STRICT;
