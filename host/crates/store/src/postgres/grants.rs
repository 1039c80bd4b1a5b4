//! Grants in PostgreSQL: in the table `permission`.

use super::PostgresStore;
use super::error::PostgresError;
use super::rows::get;
use super::transaction::PostgresTransaction;
use crate::audit_lines;
use crate::codec::{decode, encode};
use async_trait::async_trait;
use tokio_postgres::Row;
use toolyard_task::audit::{By, Entry};
use toolyard_task::grant::{AfterGrant, Grant, GrantId, GrantStore};
use toolyard_task::{AccessRequest, Digest, Owner, StoreError};

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
const LIST: &str = "SELECT record FROM permission WHERE (given, id) > ($1, $2) ORDER BY given, id LIMIT $3";
const REVOKE: &str = "DELETE FROM permission WHERE id = $1 RETURNING record, (SELECT store_time($2))";

#[async_trait]
impl GrantStore for PostgresStore {
    async fn give(&self, grant: Grant, most: u32, entries: Vec<Entry>) -> Result<Option<Grant>, StoreError> {
        let bodies = audit_lines::bodies(self.state.audit.on, &entries)?;
        let given = (grant, bodies);
        let done = self
            .writer
            .write(given, move |writing, (grant, bodies)| Box::pin(give(writing, grant, most, bodies)));
        done.await
    }

    async fn standing(
        &self,
        owner: &Owner,
        plugin: &str,
        digest: &Digest,
        wanted: &AccessRequest,
    ) -> Result<Option<Grant>, StoreError> {
        let (owner, wanted) = (owner.key().into_bytes(), wanted.key());
        let rows = self.readers.rows(STANDING, &[&owner, &plugin, &digest.0, &wanted]).await?;
        rows.first().map(grant).transpose()
    }

    async fn grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, StoreError> {
        let (given, id) =
            after.map_or((i64::MIN, String::new()), |after| (after.given_at.0, after.id.to_string()));
        self.readers.rows(LIST, &[&given, &id, &i64::from(limit)]).await?.iter().map(grant).collect()
    }

    async fn revoke(&self, id: GrantId, by: &By) -> Result<Option<Grant>, StoreError> {
        let audited = self.state.audit.on;
        let revoked = self.writer.write(by.clone(), move |writing, by| {
            Box::pin(async move {
                let gone = writing.rows(REVOKE, &[&id.to_string(), &writing.state.floor.get()]).await?;
                let Some(row) = gone.first() else { return Ok(None) };
                let (grant, now) = (grant(row)?, writing.state.floor.saw(row.try_get(1)?));
                writing.log_all(now, &audit_lines::bodies(audited, &[Entry::revoked(&grant, by)])?);
                Ok(Some(grant))
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
) -> Result<Option<Grant>, PostgresError> {
    let session = match &grant.owner {
        Owner::Session(id) => Some(id.as_str()),
        Owner::Local | Owner::Anyone | Owner::Subject { .. } => None,
    };
    if let Some(session) = session
        && writing.rows(SESSION, &[&session]).await?.is_empty()
    {
        return Ok(None);
    }
    let now = writing.time().await?;
    let grant = Grant { given_at: now, ..grant.clone() };
    let record = encode(&grant)?;
    let (id, owner, wanted) = (grant.id.to_string(), grant.owner.key().into_bytes(), grant.wanted.key());
    writing.execute(FORMER, &[&owner, &grant.plugin, &grant.digest.0, &wanted]).await?;
    writing
        .execute(INSERT, &[&id, &owner, &grant.plugin, &grant.digest.0, &wanted, &session, &now.0, &record])
        .await?;
    writing.execute(OVER, &[&owner, &id, &i64::from(most.saturating_sub(1))]).await?;
    writing.log_all(now, bodies);
    Ok(Some(grant))
}

fn grant(row: &Row) -> Result<Grant, StoreError> {
    Ok(decode(get(row, 0)?)?)
}
