ALTER TABLE task ADD COLUMN wake bigint;
CREATE INDEX parked_task ON task (wake, id) INCLUDE (owner) WHERE wake IS NOT NULL;
CREATE TABLE journal (
    task        uuid   PRIMARY KEY REFERENCES task (id) ON DELETE CASCADE,
    incarnation bigint NOT NULL,
    attempt     bigint NOT NULL,
    first       bigint NOT NULL,
    next        bigint NOT NULL,
    entries     bigint NOT NULL,
    bytes       bigint NOT NULL,
    component   text   COLLATE "C" NOT NULL
);
CREATE INDEX journal_by_component ON journal (component);
CREATE TABLE journal_chunk (
    task    uuid   NOT NULL REFERENCES journal (task) ON DELETE CASCADE,
    number  bigint NOT NULL,
    entries bigint NOT NULL,
    body    bytea  NOT NULL,
    PRIMARY KEY (task, number)
);
CREATE TABLE component (
    digest text   COLLATE "C" PRIMARY KEY,
    parts  bigint NOT NULL,
    put    bigint NOT NULL
);
CREATE TABLE component_part (
    digest text   COLLATE "C" NOT NULL REFERENCES component (digest) ON DELETE CASCADE,
    part   bigint NOT NULL,
    body   bytea  NOT NULL,
    PRIMARY KEY (digest, part)
);
