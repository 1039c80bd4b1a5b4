CREATE TABLE run (
    task        uuid   NOT NULL,
    attempt     bigint NOT NULL,
    tool        text   NOT NULL,
    digest      text   NOT NULL,
    owner       bytea  NOT NULL,
    incarnation bigint NOT NULL,
    created     bigint NOT NULL,
    started     bigint,
    ended       bigint,
    outcome     text,
    cpu_us      bigint,
    memory      bigint,
    bytes       bigint NOT NULL,
    PRIMARY KEY (task, attempt)
);
CREATE INDEX run_by_ended ON run (ended) WHERE ended IS NOT NULL;
CREATE TABLE run_event (
    task    uuid     NOT NULL,
    seq     bigint   NOT NULL,
    attempt bigint   NOT NULL,
    at      bigint   NOT NULL,
    kind    smallint NOT NULL,
    body    bytea    NOT NULL,
    PRIMARY KEY (task, seq)
);
