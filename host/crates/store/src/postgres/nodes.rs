//! The live hosts: those whose lease has not expired by the server's clock. A host whose lease has
//! expired stays dead, whatever that clock does later.

use super::PostgresStore;
use super::rows::{get, number};
use async_trait::async_trait;
use tokio_postgres::Row;
use toolyard_task::node::{Neighbour, NodeStore, Registration, Tenure};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Digest, Incarnation, StoreError};

const REGISTER: &str = "
    INSERT INTO node (name, started, until, dead)
    SELECT $1, now, now + $2, false FROM (SELECT engine_time() AS now OFFSET 0) AS clock
    RETURNING incarnation";

/// Also records that the host is dead, if it is, so that it stays dead.
const RENEW: &str = "
    UPDATE node SET dead = dead OR until <= now, until = CASE WHEN dead OR until <= now THEN until ELSE now + $2 END,
        components = coalesce($3::text[], components)
    FROM (SELECT engine_time() AS now OFFSET 0) AS clock
    WHERE incarnation = $1 RETURNING NOT dead";

const RESIGN: &str = "UPDATE node SET dead = true WHERE incarnation = $1";

const REAP: &str = "UPDATE node SET dead = true WHERE NOT dead AND until <= (SELECT engine_time())";

/// Dead hosts, and holders of tasks that are not known as hosts: a host that was forgotten before
/// it noticed that it was dead may have taken tasks since. The query takes one index step for each
/// holder, however many tasks it has. A parked task has none (0).
const DEAD: &str = "
    WITH RECURSIVE holder (incarnation) AS (
        (SELECT incarnation FROM task WHERE status <= 2 AND incarnation > 0 ORDER BY incarnation LIMIT 1)
        UNION ALL
        SELECT (SELECT task.incarnation FROM task
                WHERE task.status <= 2 AND task.incarnation > holder.incarnation
                ORDER BY task.incarnation LIMIT 1)
        FROM holder WHERE holder.incarnation IS NOT NULL)
    SELECT incarnation FROM node WHERE dead
    UNION
    SELECT incarnation FROM holder WHERE incarnation IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM node WHERE node.incarnation = holder.incarnation)
    ORDER BY incarnation";

const LIVING: &str = "
    SELECT incarnation, name, started, components FROM node
    WHERE NOT dead AND until > (SELECT engine_time()) ORDER BY incarnation";

/// A host whose tasks have not been recovered must be found again.
const FORGET: &str = "
    DELETE FROM node WHERE incarnation = $1 AND dead
        AND NOT EXISTS (SELECT 1 FROM task WHERE incarnation = $1 AND status <= 2)";

#[async_trait]
impl NodeStore for PostgresStore {
    async fn register(&self) -> Result<Registration, StoreError> {
        let mut mine = self.node.lock().await;
        let tenure = Tenure::Lease(self.lease);
        if let Some(incarnation) = *mine
            && self.renewed(incarnation, None).await?
        {
            return Ok(Registration { incarnation, tenure });
        }
        let node = (self.name.clone(), self.lease_ms());
        let registered = self.writer.write(node, |writing, (name, lease)| {
            Box::pin(async move { writing.rows(REGISTER, &[name, lease]).await })
        });
        let rows = registered.await?;
        let row = rows.first().ok_or_else(super::error::closed)?;
        let incarnation = incarnation(row)?;
        *mine = Some(incarnation);
        Ok(Registration { incarnation, tenure })
    }

    async fn renew(
        &self,
        incarnation: Incarnation,
        components: Option<&[Digest]>,
    ) -> Result<bool, StoreError> {
        let mine = *self.node.lock().await;
        let components = components.map(|all| all.iter().map(|component| component.0.clone()).collect());
        if mine == Some(incarnation) { self.renewed(incarnation, components).await } else { Ok(false) }
    }

    async fn dead(&self) -> Result<Vec<Incarnation>, StoreError> {
        let late = self
            .readers
            .rows("SELECT 1 FROM node WHERE NOT dead AND until <= (SELECT engine_time()) LIMIT 1", &[]);
        if !late.await?.is_empty() {
            self.writer.write((), |writing, ()| Box::pin(writing.execute(REAP, &[]))).await?;
        }
        let rows = self.readers.rows(DEAD, &[]).await?;
        rows.iter().map(incarnation).collect()
    }

    async fn living(&self) -> Result<Vec<Neighbour>, StoreError> {
        let rows = self.readers.rows(LIVING, &[]).await?;
        let neighbour = |row: &Row| {
            Ok(Neighbour {
                incarnation: incarnation(row)?,
                name: get(row, 1)?,
                since: Timestamp(get(row, 2)?),
                components: get::<Vec<String>>(row, 3)?.into_iter().map(Digest).collect(),
            })
        };
        rows.iter().map(neighbour).collect()
    }

    async fn forget(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        if *self.node.lock().await == Some(incarnation) {
            self.node_write(RESIGN, incarnation).await?;
        }
        self.node_write(FORGET, incarnation).await
    }
}

fn incarnation(row: &Row) -> Result<Incarnation, StoreError> {
    get::<i64>(row, 0).map(|number| Incarnation(number.unsigned_abs()))
}

impl PostgresStore {
    async fn renewed(
        &self,
        incarnation: Incarnation,
        components: Option<Vec<String>>,
    ) -> Result<bool, StoreError> {
        let node = (number(incarnation.0), self.lease_ms(), components);
        let renewed = self.writer.write(node, |writing, (incarnation, lease, components)| {
            Box::pin(async move { writing.rows(RENEW, &[incarnation, lease, components]).await })
        });
        renewed.await?.first().map_or(Ok(false), |row| get(row, 0))
    }

    async fn node_write(&self, sql: &'static str, incarnation: Incarnation) -> Result<(), StoreError> {
        let written = self.writer.write(number(incarnation.0), move |writing, incarnation| {
            Box::pin(async move { writing.execute(sql, &[incarnation]).await })
        });
        written.await.map(drop)
    }

    fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    /// The host's last operation: it is forgotten, unless it leaves tasks behind.
    pub(super) async fn farewell(&self) {
        let Some(incarnation) = *self.node.lock().await else { return };
        if let Err(error) = self.forget(incarnation).await {
            tracing::warn!(
                event = "cluster.resign_failed", node = %incarnation,
                error = &error as &dyn std::error::Error,
                "cannot report the end of this node"
            );
        }
    }
}
