//! Hosts, sessions and keys in memory.

use super::{MemoryStore, State};
use crate::refusal::{StoreRefusal, secret};
use async_trait::async_trait;
use std::collections::BTreeSet;
use toolyard_task::keys::{Key, KeyStore, KeyUse};
use toolyard_task::node::{Neighbour, NodeStore, Registration, Tenure};
use toolyard_task::session::{Session, SessionStore};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Digest, Incarnation, SessionId, StoreError};
use uuid::Uuid;

/// The state of a host.
#[derive(Debug, Clone)]
pub(super) struct Life {
    /// Whether the host lives: it was not killed, did not resign, and no host has found its lease expired.
    pub(super) lives: bool,
    /// When its lease ends, if hosts have leases.
    until: Option<Timestamp>,
    since: Timestamp,
    components: Vec<Digest>,
}

#[async_trait]
impl NodeStore for MemoryStore {
    async fn register(&self) -> Result<Registration, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let mut mine = self.incarnation.lock();
        let tenure = state.lease.map_or(Tenure::Process, Tenure::Lease);
        if let Some(incarnation) = *mine
            && state.lives(incarnation, now)
        {
            return Ok(Registration { incarnation, tenure });
        }
        state.incarnations += 1;
        let incarnation = Incarnation(state.incarnations);
        let until = state.lease_from(now);
        state.hosts.insert(incarnation, Life { lives: true, until, since: now, components: Vec::new() });
        *mine = Some(incarnation);
        Ok(Registration { incarnation, tenure })
    }

    async fn renew(
        &self,
        incarnation: Incarnation,
        components: Option<&[Digest]>,
    ) -> Result<bool, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let mine = *self.incarnation.lock() == Some(incarnation);
        if !mine || !state.lives(incarnation, now) {
            return Ok(false);
        }
        let until = state.lease_from(now);
        if let Some(life) = state.hosts.get_mut(&incarnation) {
            life.until = until;
            if let Some(components) = components {
                life.components = components.to_vec();
            }
        }
        Ok(true)
    }

    async fn dead(&self) -> Result<Vec<Incarnation>, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        // Also the other holders of tasks: a host that was forgotten before it noticed that it was dead
        // may have taken tasks since.
        let holders = state.live().filter(|task| task.parked().is_none()).map(|task| task.fence.incarnation);
        let all: BTreeSet<Incarnation> = state.hosts.keys().copied().chain(holders).collect();
        Ok(all.into_iter().filter(|incarnation| !state.lives(*incarnation, now)).collect())
    }

    async fn living(&self) -> Result<Vec<Neighbour>, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let all: Vec<Incarnation> = state.hosts.keys().copied().collect();
        let leased = state.lease.is_some();
        let living = all.into_iter().filter(|incarnation| leased && state.lives(*incarnation, now));
        let living: Vec<Incarnation> = living.collect();
        let neighbour = |incarnation| {
            let life = state.hosts.get(&incarnation)?;
            let (since, components) = (life.since, life.components.clone());
            Some(Neighbour { incarnation, name: format!("host {}", incarnation.0), since, components })
        };
        Ok(living.into_iter().filter_map(neighbour).collect())
    }

    async fn forget(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let mine = *self.incarnation.lock() == Some(incarnation);
        if let Some(life) = state.hosts.get_mut(&incarnation) {
            life.lives &= !mine;
        }
        let held = state.live().any(|task| task.fence.incarnation == incarnation);
        if !held && !state.lives(incarnation, now) {
            state.hosts.remove(&incarnation);
        }
        Ok(())
    }
}

impl State {
    /// Whether a host is live. A host that was once found dead stays dead, whatever the clock does
    /// later.
    pub(super) fn lives(&mut self, incarnation: Incarnation, now: Timestamp) -> bool {
        let Some(life) = self.hosts.get_mut(&incarnation) else { return false };
        life.lives &= life.until.is_none_or(|until| now < until);
        life.lives
    }

    fn lease_from(&self, now: Timestamp) -> Option<Timestamp> {
        let milliseconds = |lease: std::time::Duration| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self.lease.map(|lease| now.plus(milliseconds(lease)))
    }

    fn works_for(&self, session: &SessionId) -> bool {
        self.live().any(|task| task.session.as_ref() == Some(session))
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn open(&self, mut session: Session, most: u32) -> Result<Session, StoreError> {
        let mut state = self.state()?;
        if state.sessions.contains_key(&session.id) {
            return Err(StoreError::Corrupt(StoreRefusal::Exists(session.id.to_string()).into()));
        }
        session.created_at = self.shared.clock.now();
        session.seen_at = session.created_at;
        state.sessions.insert(session.id.clone(), session.clone());
        while state.sessions.len() > most as usize {
            let idle =
                state.sessions.values().filter(|other| other.id != session.id && !state.works_for(&other.id));
            let Some(longest) =
                idle.min_by_key(|other| (other.seen_at, &other.id)).map(|other| other.id.clone())
            else {
                break;
            };
            state.end_session(&longest);
        }
        Ok(session)
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        Ok(self.state()?.sessions.get(id).cloned())
    }

    async fn sessions(&self, limit: u32) -> Result<Vec<Session>, StoreError> {
        let mut all: Vec<Session> = self.state()?.sessions.values().cloned().collect();
        all.sort_by(|one, other| (other.seen_at, &other.id).cmp(&(one.seen_at, &one.id)));
        all.truncate(limit as usize);
        Ok(all)
    }

    async fn touch(&self, id: &SessionId) -> Result<(), StoreError> {
        if let Some(session) = self.state()?.sessions.get_mut(id) {
            session.seen_at = self.shared.clock.now();
        }
        Ok(())
    }

    async fn remember(&self, session: &Session) -> Result<bool, StoreError> {
        let mut state = self.state()?;
        let Some(open) = state.sessions.get_mut(&session.id) else { return Ok(false) };
        open.log_level.clone_from(&session.log_level);
        open.task_aware = session.task_aware;
        open.subscriptions.clone_from(&session.subscriptions);
        Ok(true)
    }

    async fn close(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.state()?.end_session(id))
    }

    async fn sweep(&self, idle_ms: u64) -> Result<u32, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let idle: Vec<SessionId> = state
            .sessions
            .values()
            .filter(|session| now.since(session.seen_at) >= idle_ms && !state.works_for(&session.id))
            .map(|session| session.id.clone())
            .collect();
        for id in &idle {
            state.end_session(id);
        }
        Ok(u32::try_from(idle.len()).unwrap_or(u32::MAX))
    }
}

#[async_trait]
impl KeyStore for MemoryStore {
    async fn keys(&self, used_for: KeyUse) -> Result<Vec<Key>, StoreError> {
        let mut state = self.state()?;
        let keys = state.keys.entry(used_for.as_str()).or_default();
        if keys.is_empty() {
            keys.push(Key { id: 1, secret: secret()? });
        }
        Ok(keys.clone())
    }

    async fn use_up(&self, id: Uuid, until: Timestamp) -> Result<bool, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        state.used.retain(|_, until| *until > now);
        Ok(state.used.insert(id, until).is_none())
    }
}
