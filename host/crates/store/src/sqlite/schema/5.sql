CREATE TABLE used (
    id      BLOB    NOT NULL PRIMARY KEY,
    until   INTEGER NOT NULL
) STRICT;
CREATE INDEX used_by_until ON used (until);
