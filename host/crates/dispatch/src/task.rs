//! Tasks: commits, waiters, queries, lists, questions.

pub(crate) mod commit;
pub(crate) mod handover;
pub(crate) mod journals;
pub(crate) mod kept;
pub(crate) mod list;
pub(crate) mod operations;
pub(crate) mod questions;
pub(crate) mod rejoin;
pub(crate) mod waiters;

use crate::access::Access;
use crate::bridge::timeouts::ClientTimeouts;
use crate::client::Clients;
use crate::error::Fault;
use crate::observe::Observers;
use crate::settings::Settings;
use crate::slots::Slots;
use journals::JournalSum;
use kept::RetentionSums;
use questions::InflightQuestions;
use rejoin::{RejoinBroadcast, RejoinIndex, ToldTasks};
use std::sync::Arc;
use tokio::sync::Notify;
use toolyard_task::journal::JournalStore;
use toolyard_task::store::{CreateError, Quota, QuotaScope};
use toolyard_task::{Clock, Ids, TaskStore, TimelineStore};
use waiters::Waiters;

/// The tasks of the store, and their waiters.
pub struct Tasks {
    pub(crate) store: Arc<dyn TaskStore>,
    /// The timelines of the tasks.
    pub(crate) timeline: Arc<dyn TimelineStore>,
    /// The journals of the tasks that resume.
    pub(crate) journals: Arc<dyn JournalStore>,
    /// Notified when parked tasks are due.
    pub(crate) due: Notify,
    /// The waiters for a change.
    pub(crate) waiters: Waiters,
    /// Questions of tasks that clients have not answered.
    pub(crate) inflight: InflightQuestions,
    /// The tasks that an equal call joins.
    pub(crate) rejoin: Arc<RejoinIndex>,
    /// The timeouts of clients that know no tasks.
    pub(crate) timeouts: ClientTimeouts,
    /// The tasks that anonymous sessions were told of.
    pub(crate) told: ToldTasks,
    /// The bytes that are kept of tasks.
    kept: RetentionSums,
    /// The bytes of all journals.
    journal_sum: JournalSum,
    settings: Arc<Settings>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    access: Arc<Access>,
    clients: Arc<Clients>,
    observers: Arc<Observers>,
    slots: Arc<Slots>,
    rejoin_broadcast: Arc<dyn RejoinBroadcast>,
}

impl Tasks {
    pub(crate) fn new(
        (store, timeline, journals): (Arc<dyn TaskStore>, Arc<dyn TimelineStore>, Arc<dyn JournalStore>),
        (settings, clock, ids): (Arc<Settings>, Arc<dyn Clock>, Arc<dyn Ids>),
        access: Arc<Access>,
        clients: Arc<Clients>,
        observers: Arc<Observers>,
        slots: Arc<Slots>,
        rejoin_broadcast: Arc<dyn RejoinBroadcast>,
    ) -> Self {
        Self {
            store,
            timeline,
            journals,
            due: Notify::new(),
            waiters: Waiters::default(),
            inflight: InflightQuestions::default(),
            rejoin: Arc::default(),
            timeouts: ClientTimeouts::default(),
            told: ToldTasks::default(),
            kept: RetentionSums::default(),
            journal_sum: JournalSum::default(),
            settings,
            clock,
            ids,
            access,
            clients,
            observers,
            slots,
            rejoin_broadcast,
        }
    }

    pub(crate) fn quota(&self) -> Quota {
        let bounds = &self.settings.admission;
        Quota {
            per_owner: bounds.running_per_principal + bounds.waiting_per_principal,
            parked_per_owner: bounds.parked_per_principal,
            in_all: self.settings.live_tasks,
        }
    }

    pub(crate) fn not_created(&self, error: CreateError) -> Fault {
        match error {
            CreateError::Store(error) => Fault::Store(error),
            CreateError::Full { scope, .. } => {
                let limit = match scope {
                    QuotaScope::Owner => "tasks.waiting-per-principal",
                    QuotaScope::Parked => "tasks.parked-per-principal",
                    QuotaScope::Store => "tasks.live",
                };
                Fault::busy(limit, error.to_string())
            }
        }
    }
}
