//! Other roles of the same database: the host does not use objects that they created or may change,
//! and they cannot block a host.

use super::connect;
use super::server::{self, Server};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use toolyard_store::postgres::{PostgresLocation, PostgresOpenError};
use toolyard_store::{Backend, PostgresOptions, PostgresStore};
use toolyard_store_contract::{AMPLE, owner, task};
use toolyard_task::keys::{KeyStore as _, KeyUse};
use toolyard_task::store::{Quota, Records, TaskStore as _};

/// The role that hosts connect as, another role, and the name of a schema that neither has created
/// yet.
struct Roles {
    server: &'static Server,
    host: String,
    spy: String,
    schema: String,
}

impl Roles {
    async fn new() -> Option<Self> {
        Some(Self::on(server::shared()?).await)
    }

    async fn on(server: &'static Server) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (host, spy) = (format!("host_{number}"), format!("spy_{number}"));
        let roles = Self { server, host, spy, schema: server.schema() };
        roles.operator("CREATE ROLE HOST LOGIN; CREATE ROLE SPY LOGIN").await;
        // PostgreSQL lets one of two concurrent grants on a database fail.
        let grant =
            "BEGIN; SELECT pg_advisory_xact_lock(1); GRANT CREATE ON DATABASE postgres TO HOST, SPY; COMMIT";
        roles.operator(grant).await;
        roles
    }

    fn address(&self, role: &str) -> String {
        self.server.address().replace("//toolyard@", &format!("//{role}@"))
    }

    /// Replaces general names with the names of this test.
    fn named(&self, sql: &str) -> String {
        sql.replace("HOST", &self.host).replace("SPY", &self.spy).replace("SPACE", &self.schema)
    }

    async fn connect(&self, role: &str) -> Client {
        connect(&self.address(role)).await
    }

    fn place(&self) -> PostgresLocation {
        PostgresLocation::parse(&self.address(&self.host), &self.schema).expect("an address")
    }

    async fn run(&self, role: &str, sql: &str) {
        let sql = self.named(sql);
        self.connect(role).await.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    async fn operator(&self, sql: &str) {
        self.run("toolyard", sql).await;
    }

    async fn start(&self, wait: Duration) -> Result<(), PostgresOpenError> {
        let options = PostgresOptions { readers: 1, start_wait: wait, ..PostgresOptions::default() };
        PostgresStore::open(self.place(), options).await?.shut_down().await;
        Ok(())
    }

    async fn opens(&self) {
        self.start(Duration::from_secs(30)).await.expect("opens");
    }

    /// A start is refused because of an object, with all of these texts in the message. Returns the
    /// remedy.
    async fn refuses(&self, says: &[&str]) -> String {
        let error = self.start(Duration::from_secs(30)).await.expect_err("is refused");
        let said = error.to_string();
        for phrase in says {
            let phrase = self.named(phrase);
            assert!(said.contains(&phrase), "{phrase}: {said}");
        }
        match error {
            PostgresOpenError::NotAlone { mended, .. } => mended,
            other => panic!("{other:?}"),
        }
    }
}

/// The attack of the review: a schema, and a table with a trigger, before the first start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_another_role_has_made_is_not_used_and_its_code_is_not_run() {
    let Some(roles) = Roles::new().await else { return };
    let spy = roles.spy.clone();
    let trap = "CREATE SCHEMA SPACE; GRANT ALL ON SCHEMA SPACE TO PUBLIC;
        CREATE TABLE SPACE.toolyard_version (one boolean PRIMARY KEY CHECK (one), version bigint NOT NULL);
        GRANT ALL ON SPACE.toolyard_version TO PUBLIC;
        CREATE TABLE SPACE.ran (who text); GRANT ALL ON SPACE.ran TO PUBLIC;
        CREATE FUNCTION SPACE.spring() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO SPACE.ran VALUES (current_user); RETURN NEW; END $$;
        CREATE TRIGGER spring BEFORE INSERT ON SPACE.toolyard_version
            FOR EACH ROW EXECUTE FUNCTION SPACE.spring()";
    roles.run(&spy, trap).await;
    roles.refuses(&["the schema SPACE belongs to the role SPY, not to HOST", "OWNER TO HOST"]).await;
    // The same applies if the operator has given the schema to the host but not the tables.
    roles.operator("ALTER SCHEMA SPACE OWNER TO HOST").await;
    roles.refuses(&["SPACE.spring", "belongs to the role SPY"]).await;
    let sql = roles.named("SELECT count(*) FROM SPACE.ran");
    let ran: i64 = roles.connect(&spy).await.query_one(&sql, &[]).await.expect("counts").get(0);
    assert_eq!(ran, 0, "the trigger ran");
}

/// The start names each object that a stranger owns, may use or has added, and its advice fixes
/// that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_not_the_hosts_alone_is_named_with_what_mends_it() {
    // A separate database, because an event trigger affects the whole database.
    let Some(server) = Server::start(server::Flushing::Off) else { return };
    let roles = Roles::on(Box::leak(Box::new(server))).await;
    roles.opens().await;
    let cases: &[(&str, &str)] = &[
        // Objects owned by others, including the superuser.
        ("ALTER TABLE SPACE.task OWNER TO SPY", "table SPACE.task belongs to the role SPY"),
        ("ALTER TABLE SPACE.task OWNER TO toolyard", "table SPACE.task belongs to the role toolyard"),
        ("ALTER SEQUENCE SPACE.audit_writer OWNER TO SPY", "sequence SPACE.audit_writer belongs"),
        ("ALTER FUNCTION SPACE.engine_time() OWNER TO SPY", "function SPACE.engine_time() belongs"),
        ("ALTER SCHEMA SPACE OWNER TO SPY", "schema SPACE belongs"),
        ("CREATE VIEW SPACE.seen AS SELECT 1; ALTER VIEW SPACE.seen OWNER TO SPY", "view SPACE.seen belongs"),
        ("CREATE TYPE SPACE.m AS ENUM ('a'); ALTER TYPE SPACE.m OWNER TO SPY", "type SPACE.m belongs"),
        ("CREATE DOMAIN SPACE.big AS bigint; ALTER DOMAIN SPACE.big OWNER TO SPY", "type SPACE.big belongs"),
        (
            "CREATE OPERATOR SPACE.<=> (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_catalog.starts_with);
             ALTER OPERATOR SPACE.<=> (text, text) OWNER TO SPY",
            "operator SPACE.<=>(text,text) belongs",
        ),
        (
            "CREATE COLLATION SPACE.odd (locale = 'C'); ALTER COLLATION SPACE.odd OWNER TO SPY",
            "collation SPACE.odd",
        ),
        // Objects that others have rights on.
        ("GRANT USAGE ON SCHEMA SPACE TO SPY", "schema SPACE is open to the role SPY (USAGE)"),
        ("GRANT CREATE ON SCHEMA SPACE TO PUBLIC", "schema SPACE is open to all roles (CREATE)"),
        ("GRANT SELECT, INSERT ON SPACE.task TO SPY", "SPACE.task is open to the role SPY (INSERT, SELECT)"),
        ("GRANT TRIGGER ON SPACE.session TO PUBLIC", "table SPACE.session is open to all roles (TRIGGER)"),
        ("GRANT SELECT (secret) ON SPACE.key TO SPY", "column SPACE.key.secret is open to the role SPY"),
        ("GRANT USAGE ON SEQUENCE SPACE.audit_writer TO SPY", "sequence SPACE.audit_writer is open"),
        ("GRANT EXECUTE ON FUNCTION SPACE.room_for(bytea, bigint, bigint) TO SPY", "is open to the role SPY"),
        (
            "ALTER DEFAULT PRIVILEGES FOR ROLE HOST GRANT SELECT ON TABLES TO SPY",
            "default privileges of the role HOST open what it will make to the role SPY",
        ),
        (
            "ALTER DEFAULT PRIVILEGES FOR ROLE HOST IN SCHEMA SPACE GRANT ALL ON SEQUENCES TO PUBLIC",
            "default privileges of the role HOST open what it will make to all roles",
        ),
        // Code by others.
        (
            "CREATE FUNCTION public.spring() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
             CREATE TRIGGER spring AFTER INSERT ON SPACE.task EXECUTE FUNCTION public.spring()",
            "trigger spring on SPACE.task is no part of it",
        ),
        ("CREATE RULE quiet AS ON DELETE TO SPACE.task DO ALSO NOTHING", "rule quiet on SPACE.task"),
        ("CREATE POLICY odd ON SPACE.task USING (true)", "policy odd on SPACE.task"),
        (
            "CREATE TABLE public.outside (id text COLLATE \"C\" REFERENCES SPACE.session (id))",
            "constraint outside_id_fkey of public.outside refers to a table of it from outside",
        ),
        (
            "CREATE FUNCTION public.watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$;
             ALTER FUNCTION public.watch() OWNER TO SPY;
             CREATE EVENT TRIGGER watch ON ddl_command_end EXECUTE FUNCTION public.watch()",
            "event trigger watch runs code of the role SPY",
        ),
    ];
    for (harm, says) in cases {
        roles.operator(harm).await;
        let mended = roles.refuses(&[says]).await;
        let ends = [", if you know", ", or use a database"].into_iter().find_map(|words| mended.find(words));
        let statement = &mended[..ends.unwrap_or(mended.len())];
        roles.operator(statement).await;
        let started = roles.start(Duration::from_secs(30)).await;
        started.unwrap_or_else(|error| panic!("{harm}: {statement}: {error}"));
    }
    roles.operator("DROP EVENT TRIGGER watch").await;
}

/// The start detects a table that a stranger began to create while it had the right, and commits
/// just afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_a_stranger_finishes_in_the_midst_of_the_start_is_not_written() {
    let Some(roles) = Roles::new().await else { return };
    roles.operator("CREATE SCHEMA SPACE AUTHORIZATION HOST; GRANT ALL ON SCHEMA SPACE TO SPY").await;
    let spy = roles.connect(&roles.spy.clone()).await;
    let make = "BEGIN; CREATE TABLE SPACE.toolyard_version (one boolean PRIMARY KEY CHECK (one), version bigint NOT NULL)";
    spy.batch_execute(&roles.named(make)).await.expect("is made");
    roles.operator("REVOKE ALL ON SCHEMA SPACE FROM SPY").await;
    let starting = async {
        roles.refuses(&["table SPACE.toolyard_version belongs to the role SPY"]).await;
    };
    let ending = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = $1";
        let look = roles.connect("toolyard").await;
        while look.query_one(waits, &[&roles.host]).await.expect("counts").get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        spy.batch_execute("COMMIT").await.expect("is committed");
    };
    tokio::join!(starting, ending);
}

/// Earlier releases locked numbers that any role may lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lock_that_a_stranger_can_take_holds_a_host_up() {
    let Some(roles) = Roles::new().await else { return };
    let spy = roles.connect(&roles.spy.clone()).await;
    for number in 1_953_460_076..1_953_460_080 {
        for of in ["SPACE", "pg_catalog"] {
            let take = format!("SELECT pg_advisory_lock({number}, hashtext('{of}'))");
            spy.batch_execute(&roles.named(&take)).await.expect("is taken");
        }
    }
    let began = Instant::now();
    roles.opens().await;
    let store = PostgresStore::open(roles.place(), PostgresOptions::default()).await.expect("opens");
    // Near a quota, hosts create tasks one at a time.
    let quota = Quota { per_owner: 2, ..AMPLE };
    store.create(task(&owner("a")), quota, Records::default()).await.expect("there is room");
    store.keys(KeyUse::Cursor).await.expect("makes one");
    store.shut_down().await;
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    // The spy cannot take the host's own locks.
    let lock = roles.named("BEGIN; LOCK TABLE SPACE.toolyard_version IN SHARE UPDATE EXCLUSIVE MODE");
    spy.batch_execute(&lock).await.expect_err("is refused");
}

/// The start names the role that it waits for, and does not wait indefinitely.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_waits_for_a_lock_ends_in_time_and_says_who_holds_it() {
    let Some(roles) = Roles::new().await else { return };
    // Another session creates the schema at this moment and does not commit.
    let spy = roles.connect(&roles.spy.clone()).await;
    let make = "SET application_name = 'psql'; BEGIN; CREATE SCHEMA SPACE";
    spy.batch_execute(&roles.named(make)).await.expect("is made");
    let error = roles.start(Duration::from_millis(2_500)).await.expect_err("is refused");
    let PostgresOpenError::Locked { by, .. } = &error else { panic!("{error:?}") };
    assert!(by.contains(&format!("of the role {} (psql)", roles.spy)), "{by}");
    assert!(error.to_string().contains("pg_terminate_backend"), "{error}");
    spy.batch_execute("ROLLBACK").await.expect("ends");
    roles.opens().await;
    // A host that upgrades the schema, and one that waits for it.
    let other = roles.connect(&roles.host.clone()).await;
    let lock = roles.named("BEGIN; LOCK TABLE SPACE.toolyard_version IN SHARE UPDATE EXCLUSIVE MODE");
    other.batch_execute(&lock).await.expect("is taken");
    let error = roles.start(Duration::from_millis(100)).await.expect_err("is refused");
    assert!(matches!(error, PostgresOpenError::Locked { .. }), "{error:?}");
    let waits = roles.start(Duration::from_secs(30));
    let ends = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.batch_execute("COMMIT").await.expect("ends");
    };
    let (opened, ()) = tokio::join!(waits, ends);
    opened.expect("opens when its turn has come");
}

/// Hosts that start at the same time create the tables once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_start_at_the_same_time_all_start() {
    let Some(roles) = Roles::new().await else { return };
    for prepared in [false, true] {
        if prepared {
            roles.operator("DROP SCHEMA SPACE CASCADE; CREATE SCHEMA SPACE AUTHORIZATION HOST").await;
        }
        let starts = (0..6).map(|_| roles.start(Duration::from_secs(30)));
        for started in futures_util::future::join_all(starts).await {
            started.expect("starts");
        }
    }
}
