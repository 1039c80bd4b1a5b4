CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    entries INTEGER NOT NULL,
    lines   BLOB    NOT NULL
) STRICT;
CREATE TABLE audit_log (id TEXT NOT NULL) STRICT;
INSERT INTO audit_log VALUES (lower(hex(randomblob(4))));
