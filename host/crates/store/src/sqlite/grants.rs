//! Grants in SQLite: in the table `permission`.

use super::error::SqliteError;
use super::transaction::SqliteTransaction;
use super::{SqliteStore, rows};
use crate::audit_lines;
use crate::codec::{decode, encode};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params, params_from_iter};
use toolyard_task::audit::{By, Entry};
use toolyard_task::grant::{AfterGrant, Grant, GrantId, GrantStore};
use toolyard_task::{AccessRequest, Digest, Owner, StoreError};

const FORMER: &str =
    "DELETE FROM permission WHERE owner = ?1 AND plugin = ?2 AND digest = ?3 AND wanted = ?4";
const SESSION: &str = "SELECT 1 FROM session WHERE id = ?1";
const INSERT: &str = "
    INSERT INTO permission (id, owner, plugin, digest, wanted, session, given, record)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
/// Removes all but the newest grants of an owner, but never the one just given.
const OVER: &str = "
    DELETE FROM permission WHERE id IN (
        SELECT id FROM permission WHERE owner = ?1 AND id <> ?2 ORDER BY given DESC, id DESC
        LIMIT -1 OFFSET ?3)";
const STANDING: &str =
    "SELECT record FROM permission WHERE owner = ?1 AND plugin = ?2 AND digest = ?3 AND wanted = ?4";
const LIST: &str = "
    SELECT record FROM permission INDEXED BY permission_by_given
    WHERE (given, id) > (?1, ?2) ORDER BY given, id LIMIT ?3";
const REVOKE: &str = "DELETE FROM permission WHERE id = ?1 RETURNING record";

#[async_trait]
impl GrantStore for SqliteStore {
    async fn give(&self, grant: Grant, most: u32, entries: Vec<Entry>) -> Result<Option<Grant>, StoreError> {
        let bodies = audit_lines::bodies(self.state.audit.on, &entries)?;
        self.writer.write(move |writing| give(writing, &grant, most, &bodies)).await
    }

    async fn standing(
        &self,
        owner: &Owner,
        plugin: &str,
        digest: &Digest,
        wanted: &AccessRequest,
    ) -> Result<Option<Grant>, StoreError> {
        let of = [owner.key(), plugin.to_owned(), digest.0.clone(), wanted.key()];
        let operation = move |on: &Connection| rows::first(on, STANDING, params_from_iter(of), stored);
        self.readers.read(operation).await
    }

    async fn grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, StoreError> {
        let (given, id) =
            after.map_or((i64::MIN, String::new()), |after| (after.given_at.0, after.id.to_string()));
        self.readers.read(move |on| rows::all(on, LIST, params![given, id, limit], stored)).await
    }

    async fn revoke(&self, id: GrantId, by: &By) -> Result<Option<Grant>, StoreError> {
        let (audited, by) = (self.state.audit.on, by.clone());
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let revoked = rows::first(writing.on, REVOKE, [id.to_string()], stored)?;
            let entries: Vec<_> = revoked.iter().map(|grant| Entry::revoked(grant, &by)).collect();
            writing.log(writing.clock.now(), &audit_lines::bodies(audited, &entries)?);
            Ok(revoked)
        };
        self.writer.write(operation).await
    }
}

fn give(
    writing: &mut SqliteTransaction<'_>,
    grant: &Grant,
    most: u32,
    bodies: &[String],
) -> Result<Option<Grant>, SqliteError> {
    let session = match &grant.owner {
        Owner::Session(id) => Some(id.as_str()),
        Owner::Local | Owner::Anyone | Owner::Subject { .. } => None,
    };
    if let Some(session) = session
        && !writing.on.prepare_cached(SESSION)?.exists(params![session])?
    {
        return Ok(None);
    }
    let now = writing.clock.now();
    let grant = Grant { given_at: now, ..grant.clone() };
    let record = encode(&grant)?;
    let (id, owner, wanted) = (grant.id.to_string(), grant.owner.key(), grant.wanted.key());
    writing.execute(FORMER, params![owner, grant.plugin, grant.digest.0, wanted])?;
    let given = params![id, owner, grant.plugin, grant.digest.0, wanted, session, now.0, record];
    writing.execute(INSERT, given)?;
    writing.execute(OVER, params![owner, id, most.saturating_sub(1)])?;
    writing.log(now, bodies);
    Ok(Some(grant))
}

/// A grant, from the column record.
fn stored(row: &Row<'_>) -> Result<Grant, SqliteError> {
    Ok(decode(rows::text(row, 0)?)?)
}
