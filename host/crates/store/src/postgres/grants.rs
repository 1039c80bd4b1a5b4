//! Grants in PostgreSQL: in the table `permission`.

use super::PostgresStore;
use super::error::{corrupt, unreadable};
use super::transaction::PostgresTransaction;
use crate::audit_lines;
use crate::codec::{decode, encode};
use async_trait::async_trait;
use std::sync::Arc;
use tokio_postgres::{Error, Row};
use toolyard_task::audit::Entry;
use toolyard_task::grant::{AfterGrant, Grant, GrantId, GrantStore};
use toolyard_task::{AccessRequest, Digest, Owner, StoreError};

const TIME: &str = "SELECT store_time($1)";
/// A later verdict replaces an earlier one.
const FORMER: &str =
    "DELETE FROM permission WHERE owner = $1 AND plugin = $2 AND digest = $3 AND wanted = $4";
/// Keeps the session until the grant is stored.
const SESSION: &str = "SELECT 1 FROM session WHERE id = $1 FOR KEY SHARE";
const INSERT: &str = "
    INSERT INTO permission (id, owner, plugin, digest, wanted, session, given, record)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (owner, plugin, digest, wanted)
    DO UPDATE SET id = excluded.id, session = excluded.session, given = excluded.given, record = excluded.record";
/// Removes all but the newest grants of an owner, but never the one just given.
const OVER: &str = "
    DELETE FROM permission WHERE id IN (
        SELECT id FROM permission WHERE owner = $1 AND id <> $2 ORDER BY given DESC, id DESC OFFSET $3)";
const STANDING: &str =
    "SELECT record FROM permission WHERE owner = $1 AND plugin = $2 AND digest = $3 AND wanted = $4";
const READ: &str = "SELECT record FROM permission WHERE id = $1";
const LIST: &str = "SELECT record FROM permission WHERE (given, id) > ($1, $2) ORDER BY given, id LIMIT $3";
const REVOKE: &str = "DELETE FROM permission WHERE id = $1 RETURNING (SELECT store_time($2))";

#[async_trait]
impl GrantStore for PostgresStore {
    async fn give(&self, grant: Grant, most: u32, entries: Vec<Entry>) -> Result<Option<Grant>, StoreError> {
        let bodies = audit_lines::bodies(self.state.audit.on, &entries).map_err(corrupt)?;
        let given = Arc::new((grant, bodies));
        let done = self.writer.write(move |writing| {
            let given = given.clone();
            Box::pin(async move { give(writing, &given.0, most, &given.1).await })
        });
        done.await?
    }

    async fn standing(
        &self,
        owner: &Owner,
        plugin: &str,
        digest: &Digest,
        wanted: &AccessRequest,
    ) -> Result<Option<Grant>, StoreError> {
        let (owner, wanted) = (owner.key().into_bytes(), wanted.key());
        self.readers
            .rows(STANDING, &[&owner, &plugin, &digest.0, &wanted])
            .await?
            .first()
            .map(grant)
            .transpose()
    }

    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.readers.rows(READ, &[&id.to_string()]).await?.first().map(grant).transpose()
    }

    async fn grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, StoreError> {
        let (given, id) =
            after.map_or((i64::MIN, String::new()), |after| (after.given_at.0, after.id.to_string()));
        self.readers.rows(LIST, &[&given, &id, &i64::from(limit)]).await?.iter().map(grant).collect()
    }

    async fn revoke(&self, id: GrantId, entries: Vec<Entry>) -> Result<bool, StoreError> {
        let bodies = Arc::new(audit_lines::bodies(self.state.audit.on, &entries).map_err(corrupt)?);
        let revoked = self.writer.write(move |writing| {
            let bodies = bodies.clone();
            Box::pin(async move {
                let gone = writing.rows(REVOKE, &[&id.to_string(), &writing.state.floor.get()]).await?;
                let Some(row) = gone.first() else { return Ok(false) };
                let now = writing.state.floor.saw(row.try_get(0)?);
                writing.log(|lines| bodies.iter().for_each(|body| lines.push(now, body)));
                Ok(true)
            })
        });
        revoked.await
    }
}

async fn give(
    writing: &PostgresTransaction<'_>,
    grant: &Grant,
    most: u32,
    bodies: &[String],
) -> Result<Result<Option<Grant>, StoreError>, Error> {
    let session = match &grant.owner {
        Owner::Session(id) => Some(id.as_str()),
        Owner::Local | Owner::Anyone | Owner::Subject { .. } => None,
    };
    if let Some(session) = session
        && writing.rows(SESSION, &[&session]).await?.is_empty()
    {
        return Ok(Ok(None));
    }
    let time = writing.rows(TIME, &[&writing.state.floor.get()]).await?;
    let now = time.first().map_or(Ok(writing.state.floor.get()), |row| row.try_get(0))?;
    let now = writing.state.floor.saw(now);
    let grant = Grant { given_at: now, ..grant.clone() };
    let record = match encode(&grant) {
        Ok(record) => record,
        Err(error) => return Ok(Err(error)),
    };
    let (id, owner, wanted) = (grant.id.to_string(), grant.owner.key().into_bytes(), grant.wanted.key());
    writing.execute(FORMER, &[&owner, &grant.plugin, &grant.digest.0, &wanted]).await?;
    writing
        .execute(INSERT, &[&id, &owner, &grant.plugin, &grant.digest.0, &wanted, &session, &now.0, &record])
        .await?;
    writing.execute(OVER, &[&owner, &id, &i64::from(most.saturating_sub(1))]).await?;
    writing.log(|lines| bodies.iter().for_each(|body| lines.push(now, body)));
    Ok(Ok(Some(grant)))
}

fn grant(row: &Row) -> Result<Grant, StoreError> {
    decode(row.try_get(0).map_err(unreadable)?)
}
