CREATE TABLE turn_room ();
CREATE TABLE turn_key ();
CREATE TABLE turn_reseal ();

CREATE OR REPLACE FUNCTION room_for(of bytea, per_owner bigint, in_all bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE own bigint; every bigint;
BEGIN
    FOR turn IN 1..2 LOOP
        SELECT count(*) INTO own FROM (
            SELECT 1 FROM task WHERE owner = of AND status <= 2 LIMIT per_owner) AS live;
        SELECT count(*) INTO every FROM (
            SELECT 1 FROM task WHERE status <= 2 LIMIT coalesce(in_all, 0)) AS live;
        EXIT WHEN turn = 2;
        IF own + 64 < per_owner AND (in_all IS NULL OR every + 64 < in_all) THEN RETURN 0; END IF;
        LOCK TABLE turn_room IN SHARE UPDATE EXCLUSIVE MODE;
    END LOOP;
    RETURN CASE WHEN own >= per_owner THEN 1 WHEN every >= in_all THEN 2 ELSE 0 END;
END $$;

ALTER TABLE task ADD COLUMN bytes bigint NOT NULL DEFAULT 0;
UPDATE task SET bytes = octet_length(record)::bigint + octet_length(arguments) + coalesce(octet_length(outcome), 0);
DROP INDEX task_by_owner_created;
CREATE INDEX task_by_owner_created ON task (owner, created, id) INCLUDE (updated, status, due, bytes);
