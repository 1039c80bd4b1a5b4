ALTER TABLE task ADD COLUMN wake bigint;
CREATE INDEX parked_task ON task (wake, id) INCLUDE (owner) WHERE wake IS NOT NULL;
CREATE INDEX parked_task_by_owner ON task (owner) WHERE wake IS NOT NULL;

-- Those that are parked have a quota of their own. What is parked at this very moment is not counted.
CREATE FUNCTION room_for(of bytea, per_owner bigint, in_all bigint, parked_per_owner bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE own bigint; every bigint; parked bigint;
BEGIN
    SELECT count(*) INTO parked FROM (
        SELECT 1 FROM task WHERE owner = of AND wake IS NOT NULL LIMIT parked_per_owner) AS waiting;
    IF parked >= parked_per_owner THEN RETURN 3; END IF;
    FOR turn IN 1..2 LOOP
        SELECT count(*) INTO own FROM (
            SELECT 1 FROM task WHERE owner = of AND status <= 2 AND wake IS NULL LIMIT per_owner) AS live;
        SELECT count(*) INTO every FROM (
            SELECT 1 FROM task WHERE status <= 2 LIMIT coalesce(in_all, 0)) AS live;
        EXIT WHEN turn = 2;
        IF own + 64 < per_owner AND (in_all IS NULL OR every + 64 < in_all) THEN RETURN 0; END IF;
        LOCK TABLE turn_room IN SHARE UPDATE EXCLUSIVE MODE;
    END LOOP;
    RETURN CASE WHEN own >= per_owner THEN 1 WHEN every >= in_all THEN 2 ELSE 0 END;
END $$;
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
