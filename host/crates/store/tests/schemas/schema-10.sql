-- The content of a file when a host of schema 9 was killed: a task in every state, and all other
-- data. Records are in the format of that release; later releases still read them.

PRAGMA journal_mode = WAL;
PRAGMA application_id = 1953460076;
PRAGMA user_version = 10;

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

DROP INDEX task_by_owner_updated;
DROP INDEX task_by_status_created;
DROP INDEX task_by_status_updated;
CREATE INDEX task_by_owner_updated  ON task (owner, updated, id, created);
CREATE INDEX task_by_status_created ON task (owner, status, created, id, updated);
CREATE INDEX task_by_status_updated ON task (owner, status, updated, id, created);

CREATE TABLE span (longest INTEGER NOT NULL) STRICT;
INSERT INTO span SELECT coalesce(max(updated - created), 0) FROM task;

CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    entries INTEGER NOT NULL,
    lines   BLOB    NOT NULL
) STRICT;
CREATE TABLE audit_log (id TEXT NOT NULL) STRICT;
INSERT INTO audit_log VALUES (lower(hex(randomblob(4))));

CREATE TABLE permission (
    id      TEXT    NOT NULL PRIMARY KEY,
    owner   TEXT    NOT NULL,
    plugin  TEXT    NOT NULL,
    digest  TEXT    NOT NULL,
    wanted  TEXT    NOT NULL,
    session TEXT,
    given   INTEGER NOT NULL,
    record  TEXT    NOT NULL,
    UNIQUE (owner, plugin, digest, wanted)
) STRICT;
CREATE INDEX permission_by_given       ON permission (given, id);
CREATE INDEX permission_by_owner_given ON permission (owner, given, id);
CREATE INDEX permission_by_session     ON permission (session) WHERE session IS NOT NULL;
CREATE TRIGGER session_takes_permissions AFTER DELETE ON session
BEGIN
    DELETE FROM permission WHERE session = old.id;
END;

CREATE TABLE used (
    id      BLOB    NOT NULL PRIMARY KEY,
    until   INTEGER NOT NULL
) STRICT;
CREATE INDEX used_by_until ON used (until);
CREATE TABLE seal (
    key     BLOB    NOT NULL PRIMARY KEY,
    leaving INTEGER NOT NULL
) STRICT;

INSERT INTO task (seq, id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome) VALUES
    (1, x'00000000000040008000000000000001', 'subject:22:https://issuer.examplea', NULL, 1, 1764066600000, 1764066600001, 1764066660000, 3, 2,
    '{"id":"00000000-0000-4000-8000-000000000001","owner":{"subject":{"issuer":"https://issuer.example","subject":"a"}},"session":null,"era":"2025","client_capabilities":{"elicitation" : {}},"tool":"example.sleep","digest":"abababababababababababababababababababababababababababababababab","progress_token":"t","requested_ttl":{"milliseconds":60000},"ttl_ms":60000,"poll_interval_ms":1000,"created_at":1764066600000,"updated_at":1764066600001,"status_message":"sleeps","version":2,"fence":{"incarnation":3,"attempt":1},"started_at":1764066600001,"effects":false,"questions":[]}',
    CAST('{ "seconds" : 1.50 }' AS BLOB), NULL);
INSERT INTO task (seq, id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome) VALUES
    (2, x'00000000000040008000000000000002', 'session:0123456789abcdef0123456789abcdef', '0123456789abcdef0123456789abcdef', 2, 1764066600000, 1764066600009, 1764066660000, 3, 4,
    '{"id":"00000000-0000-4000-8000-000000000002","owner":{"session":"0123456789abcdef0123456789abcdef"},"session":"0123456789abcdef0123456789abcdef","era":"2025","client_capabilities":{"elicitation" : {}},"tool":"example.sleep","digest":"abababababababababababababababababababababababababababababababab","progress_token":"t","requested_ttl":{"milliseconds":60000},"ttl_ms":60000,"poll_interval_ms":1000,"created_at":1764066600000,"updated_at":1764066600009,"status_message":null,"version":4,"fence":{"incarnation":3,"attempt":1},"started_at":1764066600001,"effects":true,"questions":[{"key":"name","kind":"form","params":{"message" : "Who?"},"attempt":1,"deadline":1764066600050,"sent":[{"id":"q-1","session":"0123456789abcdef0123456789abcdef"}],"client_task":null,"answer":{"Ok":{"action":"accept", "content":{"name":"Ann"}}},"asked_again":1},{"key":"sure","kind":"url","params":{"url":"https://example.com"},"attempt":1,"deadline":1764066600099,"sent":[],"client_task":"theirs","answer":null,"asked_again":1}]}',
    NULL, NULL);
INSERT INTO arguments (task, body) VALUES (2, CAST('{"long":"' || hex(zeroblob(5000)) || '"}' AS BLOB));
INSERT INTO task (seq, id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome) VALUES
    (3, x'00000000000040008000000000000003', 'subject:22:https://issuer.examplea', NULL, 3, 1764066600001, 1764066607001, 1764066660001, 2, 3,
    '{"id":"00000000-0000-4000-8000-000000000003","owner":{"subject":{"issuer":"https://issuer.example","subject":"a"}},"session":null,"era":"2025","client_capabilities":{"elicitation" : {}},"tool":"example.sleep","digest":"abababababababababababababababababababababababababababababababab","progress_token":"t","requested_ttl":{"milliseconds":60000},"ttl_ms":60000,"poll_interval_ms":1000,"created_at":1764066600001,"updated_at":1764066607001,"status_message":null,"version":3,"fence":{"incarnation":2,"attempt":1},"started_at":1764066600002,"effects":false,"questions":[]}',
    CAST('{ "seconds" : 1.50 }' AS BLOB), CAST('r{ "content" : [] }' AS BLOB));
INSERT INTO task (seq, id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome) VALUES
    (4, x'00000000000040008000000000000004', 'subject:22:https://issuer.examplea', NULL, 4, 1764066600001, 1764066600002, 1764066660001, 2, 3,
    '{"id":"00000000-0000-4000-8000-000000000004","owner":{"subject":{"issuer":"https://issuer.example","subject":"a"}},"session":null,"era":"2025","client_capabilities":{"elicitation" : {}},"tool":"example.sleep","digest":"abababababababababababababababababababababababababababababababab","progress_token":"t","requested_ttl":{"milliseconds":60000},"ttl_ms":60000,"poll_interval_ms":1000,"created_at":1764066600001,"updated_at":1764066600002,"status_message":null,"version":3,"fence":{"incarnation":2,"attempt":1},"started_at":null,"effects":false,"questions":[]}',
    NULL, CAST('e{"isError" : true,"content":[]}' AS BLOB));
INSERT INTO arguments (task, body) VALUES (4, CAST('{"long":"' || hex(zeroblob(5000)) || '"}' AS BLOB));
INSERT INTO task (seq, id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome) VALUES
    (5, x'00000000000040008000000000000005', 'local', NULL, 4, 1764066600001, 1764066600002, 1764066660001, 2, 3,
    '{"id":"00000000-0000-4000-8000-000000000005","owner":"local","session":null,"era":"2025","client_capabilities":{"elicitation" : {}},"tool":"example.sleep","digest":"abababababababababababababababababababababababababababababababab","progress_token":"t","requested_ttl":{"milliseconds":60000},"ttl_ms":60000,"poll_interval_ms":1000,"created_at":1764066600001,"updated_at":1764066600002,"status_message":null,"version":3,"fence":{"incarnation":2,"attempt":1},"started_at":null,"effects":false,"questions":[]}',
    CAST('{ "seconds" : 1.50 }' AS BLOB), CAST('j{"code":-32603,"message":"broke","data":[1]}' AS BLOB));
INSERT INTO task (seq, id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome) VALUES
    (6, x'00000000000040008000000000000006', 'local', NULL, 4, 1764066400000, 1764066460000, 1764066520000, 2, 2,
    '{"id":"00000000-0000-4000-8000-000000000006","owner":"local","session":null,"era":"2025","client_capabilities":{"elicitation" : {}},"tool":"example.sleep","digest":"abababababababababababababababababababababababababababababababab","progress_token":"t","requested_ttl":{"milliseconds":60000},"ttl_ms":60000,"poll_interval_ms":1000,"created_at":1764066400000,"updated_at":1764066460000,"status_message":"the ttl passed","version":2,"fence":{"incarnation":2,"attempt":1},"started_at":null,"effects":false,"questions":[]}',
    CAST('{ "seconds" : 1.50 }' AS BLOB), CAST('x' AS BLOB));
INSERT INTO task (seq, id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome) VALUES
    (7, x'00000000000040008000000000000007', 'subject:22:https://issuer.examplea', NULL, 5, 1764066600002, 1764066600003, 1764066660002, 2, 2,
    '{"id":"00000000-0000-4000-8000-000000000007","owner":{"subject":{"issuer":"https://issuer.example","subject":"a"}},"session":null,"era":"2025","client_capabilities":{"elicitation" : {}},"tool":"example.sleep","digest":"abababababababababababababababababababababababababababababababab","progress_token":"t","requested_ttl":{"milliseconds":60000},"ttl_ms":60000,"poll_interval_ms":1000,"created_at":1764066600002,"updated_at":1764066600003,"status_message":"cancelled","version":2,"fence":{"incarnation":2,"attempt":1},"started_at":null,"effects":false,"questions":[]}',
    CAST('{ "seconds" : 1.50 }' AS BLOB), CAST('c' AS BLOB));
UPDATE span SET longest = 60000;

INSERT INTO node (incarnation, pid, started) VALUES (3, 4711, 1764066599995);
INSERT INTO session (id, seen, record) VALUES ('0123456789abcdef0123456789abcdef', 1764066600077,
    '{"id":"0123456789abcdef0123456789abcdef","owner":{"session":"0123456789abcdef0123456789abcdef"},"revision":"2025-11-25","client_capabilities":{"sampling": {}},"client":"suite 1.0","log_level":"info","subscriptions":["file:///a"],"created_at":1764066599993,"seen_at":1764066599993}');
INSERT INTO key (use, id, secret, created) VALUES ('cursor', 1, x'1111111111111111111111111111111111111111111111111111111111111111', 1764066599991), ('cursor', 2, x'2222222222222222222222222222222222222222222222222222222222222222', 1764066599992);
UPDATE audit_log SET id = 'cafe0001';
INSERT INTO audit (seq, entries, lines) VALUES (5, 1, CAST('{"at":"2025-11-25T10:30:00.000Z","action":"task.created","principal":"local"}' || char(10) AS BLOB));
INSERT INTO permission (id, owner, plugin, digest, wanted, session, given, record) VALUES
    ('00000000-0000-4000-8000-000000000090', 'local', 'p.wasm', 'abababababababababababababababababababababababababababababababab', 'host:5:https443:example.com', NULL, 1764066600000,
    '{"id":"00000000-0000-4000-8000-000000000090","owner":"local","by":"local","plugin":"p.wasm","digest":"abababababababababababababababababababababababababababababababab","wanted":{"kind":"host","scheme":"https","host":"example.com","port":443},"verdict":"allow","given_at":1764066600000}');
INSERT INTO used (id, until) VALUES (x'00000000000040008000000000000080', 1764070200000);

ALTER TABLE task ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE task SET bytes = octet_length(record) + coalesce(octet_length(outcome), 0)
    + coalesce(octet_length(arguments), (SELECT octet_length(body) FROM arguments WHERE task = seq), 0);
DROP INDEX task_by_owner_updated;
CREATE INDEX task_by_owner_updated ON task (owner, updated, id, created, bytes);

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

INSERT INTO run (task, attempt, tool, digest, owner, incarnation, created, started, ended, outcome, cpu_us, memory, bytes) VALUES
    (x'00000000000040008000000000000001', 1, 'example.sleep', 'abababababababababababababababababababababababababababababababab', 'a', 3, 1764066600000, 1764066600001, NULL, NULL, NULL, NULL, 4);
INSERT INTO run_event (task, seq, attempt, at, kind, body) VALUES
    (x'00000000000040008000000000000001', 1, 1, 1764066600000, 1, CAST('{}' AS BLOB)),
    (x'00000000000040008000000000000001', 2, 1, 1764066600001, 3, CAST('{}' AS BLOB));

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

-- Of a task whose first run has recorded nothing yet.
INSERT INTO journal (task, incarnation, attempt, first, next, entries, bytes, component)
    SELECT seq, 3, 1, 0, 0, 0, 0, 'abababababababababababababababababababababababababababababababab' FROM task
    WHERE id = x'00000000000040008000000000000001';

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

-- Of a task that is removed.
INSERT INTO run (task, attempt, tool, digest, owner, incarnation, created, started, ended, outcome, cpu_us, memory, bytes) VALUES
    (x'00000000000040008000000000000008', 1, 'example.sleep', 'abababababababababababababababababababababababababababababababab', 'a', 3, 1764066600000, 1764066600001, 1764066600002, 'completed', NULL, NULL, 0);
