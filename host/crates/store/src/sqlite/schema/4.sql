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
