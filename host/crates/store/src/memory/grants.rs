//! Grants in memory.

use super::{MemoryStore, State};
use async_trait::async_trait;
use toolyard_task::audit::{By, Entry};
use toolyard_task::grant::{AfterGrant, Grant, GrantId, GrantStore};
use toolyard_task::{AccessRequest, Digest, Owner, SessionId, StoreError};

fn place(grant: &Grant) -> AfterGrant {
    AfterGrant { given_at: grant.given_at, id: grant.id }
}

impl State {
    /// The grants of an anonymous client end with its session.
    pub(super) fn end_session(&mut self, id: &SessionId) -> bool {
        let of = Owner::Session(id.clone());
        self.grants.retain(|_, grant| grant.owner != of);
        self.sessions.remove(id).is_some()
    }
}

#[async_trait]
impl GrantStore for MemoryStore {
    async fn give(
        &self,
        mut grant: Grant,
        most: u32,
        entries: Vec<Entry>,
    ) -> Result<Option<Grant>, StoreError> {
        let mut state = self.state()?;
        if let Owner::Session(id) = &grant.owner
            && !state.sessions.contains_key(id)
        {
            return Ok(None);
        }
        let now = self.shared.clock.now();
        grant.given_at = now;
        state.keep(now, &entries)?;
        state.grants.retain(|_, before| {
            before.owner != grant.owner || !before.is_of(&grant.plugin, &grant.digest, &grant.wanted)
        });
        state.grants.insert(grant.id, grant.clone());
        let mut others: Vec<AfterGrant> = state
            .grants
            .values()
            .filter(|other| other.owner == grant.owner && other.id != grant.id)
            .map(place)
            .collect();
        others.sort_unstable();
        let over = (others.len() + 1).saturating_sub(most as usize);
        for other in others.into_iter().take(over) {
            state.grants.remove(&other.id);
        }
        drop(state);
        self.shared.written.notify_one();
        Ok(Some(grant))
    }

    async fn standing(
        &self,
        owner: &Owner,
        plugin: &str,
        digest: &Digest,
        wanted: &AccessRequest,
    ) -> Result<Option<Grant>, StoreError> {
        let state = self.state()?;
        let mut grants = state.grants.values();
        Ok(grants.find(|grant| grant.owner == *owner && grant.is_of(plugin, digest, wanted)).cloned())
    }

    async fn grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, StoreError> {
        let state = self.state()?;
        let later = |grant: &&Grant| after.is_none_or(|after| place(grant) > after);
        let mut found: Vec<&Grant> = state.grants.values().filter(later).collect();
        found.sort_by_key(|grant| place(grant));
        Ok(found.into_iter().take(limit as usize).cloned().collect())
    }

    async fn revoke(&self, id: GrantId, by: &By) -> Result<Option<Grant>, StoreError> {
        let mut state = self.state()?;
        let Some(grant) = state.grants.remove(&id) else { return Ok(None) };
        let now = self.shared.clock.now();
        state.keep(now, &[Entry::revoked(&grant, by)])?;
        drop(state);
        self.shared.written.notify_one();
        Ok(Some(grant))
    }
}
