//! A host uses a schema only if it belongs to the host alone: the host's role owns it and
//! everything in it, no other role has rights on it, and nothing in it runs other code.
//!
//! A role that owns a table, or may create a trigger on it, can run its code as the role that
//! writes to the table. So the host checks this before it writes anything. The search path of the
//! check omits the schema, because an operator in the schema could be a better match than the
//! system's.
//!
//! The check ignores roles with general rights: superusers, members of `pg_read_all_data` and
//! similar roles, and members of the host's role itself. Those rights are granted for the whole
//! server, deliberately.

use super::connections::PostgresLocation;
use super::error::PostgresOpenError;
use tokio_postgres::{Error, GenericClient};

/// Until the end of the transaction, only the system's own names count.
pub(super) const SYSTEM_PATH: &str = "SET LOCAL search_path = pg_catalog, pg_temp";
/// The same search path for the rest of the session.
pub(super) const SYSTEM_PATH_OF_SESSION: &str = "SET search_path = pg_catalog, pg_temp";

/// Each row contains an object, its fault and the remedy. `$1` is the schema.
///
/// Every role may execute a function and use a type unless that right is revoked. A role that may
/// not use the schema can access neither, and no function of the host runs as its owner.
const FOREIGN: &str = "
WITH space AS (SELECT oid, nspowner, nspacl FROM pg_namespace WHERE nspname = $1),
    me AS (SELECT oid FROM pg_roles WHERE rolname = current_user),
    relation AS (
        SELECT c.oid, relowner, relacl, relkind, format('%I.%I', $1::text, relname) AS name,
            CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'i' THEN 'INDEX' WHEN 'I' THEN 'INDEX'
                WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END AS kind
        FROM pg_class c WHERE relnamespace = (SELECT oid FROM space)),
    owned (kind, name, owner) AS (
        SELECT 'SCHEMA', quote_ident($1), nspowner FROM space
        -- Indexes, and sequences of columns, belong to whom their table belongs.
        UNION ALL SELECT kind, name, relowner FROM relation WHERE kind <> 'INDEX' AND NOT EXISTS (
            SELECT 1 FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = relation.oid
                AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i'))
        UNION ALL SELECT CASE prokind WHEN 'a' THEN 'AGGREGATE' WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
            oid::regprocedure::text, proowner FROM pg_proc WHERE pronamespace = (SELECT oid FROM space)
        UNION ALL SELECT 'TYPE', oid::regtype::text, typowner FROM pg_type
            WHERE typnamespace = (SELECT oid FROM space) AND typrelid = 0 AND typcategory <> 'A'
        UNION ALL SELECT 'OPERATOR', oid::regoperator::text, oprowner FROM pg_operator
            WHERE oprnamespace = (SELECT oid FROM space)
        UNION ALL SELECT 'COLLATION', format('%I.%I', $1::text, collname), collowner FROM pg_collation
            WHERE collnamespace = (SELECT oid FROM space)
        UNION ALL SELECT 'CONVERSION', format('%I.%I', $1::text, conname), conowner FROM pg_conversion
            WHERE connamespace = (SELECT oid FROM space)
        UNION ALL SELECT 'OPERATOR CLASS', format('%I.%I USING %I', $1::text, opcname, amname), opcowner
            FROM pg_opclass JOIN pg_am a ON a.oid = opcmethod WHERE opcnamespace = (SELECT oid FROM space)
        UNION ALL SELECT 'OPERATOR FAMILY', format('%I.%I USING %I', $1::text, opfname, amname), opfowner
            FROM pg_opfamily JOIN pg_am a ON a.oid = opfmethod WHERE opfnamespace = (SELECT oid FROM space)
        UNION ALL SELECT 'STATISTICS', format('%I.%I', $1::text, stxname), stxowner FROM pg_statistic_ext
            WHERE stxnamespace = (SELECT oid FROM space)
        UNION ALL SELECT 'TEXT SEARCH CONFIGURATION', format('%I.%I', $1::text, cfgname), cfgowner
            FROM pg_ts_config WHERE cfgnamespace = (SELECT oid FROM space)
        UNION ALL SELECT 'TEXT SEARCH DICTIONARY', format('%I.%I', $1::text, dictname), dictowner
            FROM pg_ts_dict WHERE dictnamespace = (SELECT oid FROM space)),
    granted (object, name, grantee, privilege) AS (
        SELECT format('SCHEMA %I', $1::text), format('schema %I', $1::text), grantee, privilege_type
            FROM space, aclexplode(nspacl)
        UNION ALL SELECT CASE kind WHEN 'SEQUENCE' THEN 'SEQUENCE ' ELSE '' END || name,
            lower(kind) || ' ' || name, grantee, privilege_type
            FROM relation, aclexplode(relacl) WHERE kind <> 'TYPE'
        UNION ALL SELECT name, 'column ' || name || '.' || quote_ident(attname), grantee, privilege_type
            FROM relation JOIN pg_attribute ON attrelid = relation.oid, aclexplode(attacl)
        UNION ALL SELECT 'ROUTINE ' || p.oid::regprocedure::text, 'function ' || p.oid::regprocedure::text,
            grantee, privilege_type FROM pg_proc p, aclexplode(proacl)
            WHERE pronamespace = (SELECT oid FROM space) AND grantee <> 0
        UNION ALL SELECT 'TYPE ' || t.oid::regtype::text, 'type ' || t.oid::regtype::text, grantee, privilege_type
            FROM pg_type t, aclexplode(typacl) WHERE typnamespace = (SELECT oid FROM space) AND grantee <> 0)
SELECT CASE kind WHEN 'SCHEMA' THEN 0 ELSE 1 END AS rank, lower(kind) || ' ' || name AS object,
    format('belongs to the role %I, not to %I', pg_get_userbyid(owner), current_user) AS wrong,
    format('ALTER %s %s OWNER TO %I, if you know who made it, or DROP it', kind, name, current_user) AS mended
    FROM owned WHERE owner <> (SELECT oid FROM me)
UNION ALL SELECT 2, name,
    format('is open to %s (%s)', CASE grantee WHEN 0 THEN 'all roles' ELSE 'the role ' || quote_ident(pg_get_userbyid(grantee)) END,
        string_agg(privilege, ', ' ORDER BY privilege)),
    format('REVOKE ALL ON %s FROM %s', object, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END)
    FROM granted WHERE grantee <> (SELECT oid FROM me) GROUP BY object, name, grantee
UNION ALL SELECT 3, 'trigger ' || quote_ident(tgname) || ' on ' || name, 'is no part of it',
    format('DROP TRIGGER %I ON %s', tgname, name)
    FROM pg_trigger JOIN relation ON relation.oid = tgrelid WHERE NOT tgisinternal
UNION ALL SELECT 4, 'rule ' || quote_ident(rulename) || ' on ' || name, 'is no part of it',
    format('DROP RULE %I ON %s', rulename, name)
    FROM pg_rewrite JOIN relation ON relation.oid = ev_class WHERE relkind NOT IN ('v', 'm')
UNION ALL SELECT 5, 'policy ' || quote_ident(polname) || ' on ' || name, 'is no part of it',
    format('DROP POLICY %I ON %s', polname, name) FROM pg_policy JOIN relation ON relation.oid = polrelid
UNION ALL SELECT 6, 'constraint ' || quote_ident(conname) || ' of ' || conrelid::regclass::text,
    'refers to a table of it from outside', format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
    FROM pg_constraint JOIN relation ON relation.oid = confrelid
    WHERE contype = 'f' AND connamespace <> (SELECT oid FROM space)
UNION ALL SELECT 7, format('default privileges of the role %I', current_user),
    format('open what it will make to %s', CASE grantee WHEN 0 THEN 'all roles' ELSE 'the role ' || quote_ident(pg_get_userbyid(grantee)) END),
    format('ALTER DEFAULT PRIVILEGES FOR ROLE %I%s REVOKE ALL ON %s FROM %s', current_user,
        CASE defaclnamespace WHEN 0 THEN '' ELSE format(' IN SCHEMA %I', $1::text) END,
        CASE defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'ROUTINES' WHEN 'T' THEN 'TYPES' ELSE 'SCHEMAS' END,
        CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END)
    FROM pg_default_acl, aclexplode(defaclacl)
    WHERE defaclrole = (SELECT oid FROM me) AND grantee <> (SELECT oid FROM me)
        AND defaclnamespace IN (0, (SELECT oid FROM space)) AND NOT (grantee = 0 AND defaclobjtype IN ('f', 'T'))
UNION ALL SELECT 8, 'event trigger ' || quote_ident(evtname),
    format('runs code of the role %I whenever a table is made', pg_get_userbyid(proowner)),
    format('ALTER EVENT TRIGGER %I DISABLE, or use a database of its own', evtname)
    FROM pg_event_trigger JOIN pg_proc p ON p.oid = evtfoid JOIN pg_roles r ON r.oid = proowner
    WHERE evtenabled <> 'D' AND NOT rolsuper AND rolname <> current_user
ORDER BY 1, 2, 3, 4";

/// The refusal of this schema because of its first object that does not belong to the current role alone. Must be
/// queried under [`SYSTEM_PATH`].
pub(super) async fn foreign(
    on: &impl GenericClient,
    place: &PostgresLocation,
) -> Result<Option<PostgresOpenError>, Error> {
    let rows = on.query(FOREIGN, &[&place.schema()]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let others = match rows.len() - 1 {
        0 => String::new(),
        1 => " (and one object more)".to_owned(),
        more => format!(" (and {more} objects more)"),
    };
    let (object, wrong, mended) = (first.try_get(1)?, first.try_get(2)?, first.try_get(3)?);
    Ok(Some(PostgresOpenError::NotAlone { place: place.to_string(), object, wrong, mended, others }))
}
