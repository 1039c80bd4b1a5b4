//! Bounds the bytes of the journals of all tasks (`tasks.journals`). Over the bound, the host removes the journals of
//! the tasks that ended first. The journals of live tasks stay: if they alone have more, no task that resumes is
//! created.
//!
//! The host remembers the sum and adds the bytes that it writes. It asks the store again when the sum is old or over
//! the bound, because other hosts write and remove journals as well.

use crate::error::{Fault, RETRY_AFTER_MS};
use crate::task::Tasks;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::store::{TaskQuestion, Total};
use toolyard_task::{Owner, StoreError, TaskId};

/// A sum is valid for this long, or for this many times as long as it took, if that is longer.
const GOOD_FOR: Duration = Duration::from_secs(10);
const TIMES_AS_LONG: u32 = 100;
/// New tasks are refused for this long without a question to the store.
const FULL_FOR: Duration = Duration::from_secs(1);
/// The share of an owner: one of so many bytes of all journals.
const SHARE: u64 = 4;
/// The sum of an owner is valid for this long, or as above.
const OWNER_GOOD_FOR: Duration = Duration::from_secs(1);
/// Journals of ended tasks that are read at once.
const MAX_JOURNALS_AT_ONCE: u32 = 64;
/// The rates of `continue-with` in bytes a second: for the runs of one owner, and for all runs.
/// A guest that calls it in a loop would keep the disk busy.
const OWNER_RATE: u64 = 2 << 20;
const RATE: u64 = 8 << 20;
/// The cost of one `continue-with` besides its bytes (commits), in bytes.
const BEGINNING: u64 = 64 << 10;

/// The sum that this host remembers.
#[derive(Default)]
pub(crate) struct JournalSum {
    known: Mutex<Option<KnownSum>>,
    /// Held while journals are removed; the call before may have removed enough.
    turn: tokio::sync::Mutex<()>,
    /// The bytes of the live journals of owners, each until it is asked for again.
    owners: Mutex<HashMap<Owner, (u64, Instant)>>,
    pace: Mutex<Pace>,
}

/// Until when the runs of owners, and of all, have written what they may.
#[derive(Default)]
struct Pace {
    owners: HashMap<Owner, Instant>,
    all: Option<Instant>,
}

impl Pace {
    /// The pause of a run of this owner that has written so many bytes.
    fn pause(&mut self, owner: &Owner, bytes: u64, now: Instant) -> Duration {
        let after = |until: Option<Instant>, rate: u64| {
            let ms = (bytes + BEGINNING).saturating_mul(1000) / rate;
            until.unwrap_or(now).max(now) + Duration::from_millis(ms)
        };
        self.owners.retain(|_, until| *until > now);
        let own = after(self.owners.get(owner).copied(), OWNER_RATE);
        self.owners.insert(owner.clone(), own);
        let of_all = after(self.all, RATE);
        self.all = Some(of_all);
        own.max(of_all) - now
    }
}

#[derive(Clone, Copy)]
struct KnownSum {
    bytes: u64,
    until: Instant,
    /// Live tasks need more than the bound, so no task is created until then.
    full_until: Option<Instant>,
}

impl JournalSum {
    /// The sum, if it is not too old.
    fn known(&self) -> Option<KnownSum> {
        self.known.lock().filter(|sum| Instant::now() < sum.until)
    }

    /// Whether the sum of this owner is known, and not too old.
    fn knows(&self, owner: &Owner) -> bool {
        self.owners.lock().get(owner).is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// Whether the sum is known and not over the bound.
    fn fits(&self, bound: u64) -> bool {
        self.known().is_some_and(|sum| sum.bytes <= bound)
    }
}

impl Tasks {
    /// A journal of this host has so many bytes more.
    pub(crate) fn count_journal_bytes(&self, bytes: u64) {
        if let Some(sum) = &mut *self.journal_sum.known.lock() {
            sum.bytes = sum.bytes.saturating_add(bytes);
        }
    }

    /// Takes so many bytes for the journal of a live task of this owner. Returns whether they are within the share of
    /// the owner.
    pub(crate) async fn take_journal_bytes(&self, owner: &Owner, more: u64) -> Result<bool, StoreError> {
        let share = self.settings.journal_bytes / SHARE;
        // If all journals have no more than a share, so has each owner.
        if self.journal_sum.known().is_some_and(|sum| sum.bytes.saturating_add(more) <= share) {
            return Ok(true);
        }
        if !self.journal_sum.knows(owner) {
            let begun = Instant::now();
            let bytes = self.store.total(Total::JournalBytes(Some(owner))).await?;
            let mut owners = self.journal_sum.owners.lock();
            let now = Instant::now();
            let good_for = OWNER_GOOD_FOR.max((now - begun) * TIMES_AS_LONG);
            owners.retain(|_, (_, until)| *until > now);
            owners.entry(owner.clone()).or_insert((bytes, now + good_for));
        }
        let mut owners = self.journal_sum.owners.lock();
        let Some((bytes, _)) = owners.get_mut(owner) else { return Ok(true) };
        let fits = bytes.saturating_add(more) <= share;
        *bytes += if fits { more } else { 0 };
        Ok(fits)
    }

    /// The pause of a run before it begins again. The run belongs to this owner and has written so many bytes.
    pub(crate) fn pause_before_restart(&self, owner: &Owner, bytes: u64) -> Duration {
        self.journal_sum.pace.lock().pause(owner, bytes, Instant::now())
    }

    /// Makes room for the journal of a new task of this owner.
    ///
    /// # Errors
    /// [`Fault::Busy`] if the journals of live tasks have more bytes than all journals may have, or those of this owner
    /// more than its share.
    pub(crate) async fn make_room_for_journal(&self, owner: &Owner) -> Result<(), Fault> {
        let bound = self.settings.journal_bytes;
        let share = bound / SHARE;
        // If all journals have no more than a share, so has each owner.
        if self.journal_sum.fits(share) {
            return Ok(());
        }
        if self.store.total(Total::JournalBytes(Some(owner))).await? > share {
            return Err(Fault::Busy {
                what: format!(
                    "the journals of your live tasks have more than {share} bytes, your share of `tasks.journals`"
                ),
                limit: "tasks.journals",
                retry_after_ms: RETRY_AFTER_MS,
            });
        }
        if self.journal_sum.fits(bound) {
            return Ok(());
        }
        let is_full = |sum: KnownSum| sum.full_until.is_some_and(|until| Instant::now() < until);
        if self.journal_sum.known().is_some_and(is_full) || self.remove_ended_journals().await? > bound {
            return Err(Fault::Busy {
                what: format!(
                    "the journals of live tasks have more than the {bound} bytes that `tasks.journals` allows all \
                     journals"
                ),
                limit: "tasks.journals",
                retry_after_ms: RETRY_AFTER_MS,
            });
        }
        Ok(())
    }

    /// Removes journals of ended tasks if all journals have more bytes than they may have.
    pub(crate) async fn tidy_journals(&self) -> Result<(), StoreError> {
        if !self.journal_sum.fits(self.settings.journal_bytes) {
            self.remove_ended_journals().await?;
        }
        Ok(())
    }

    /// Removes the journals of the tasks that ended first, until the others fit. Returns the bytes of those.
    async fn remove_ended_journals(&self) -> Result<u64, StoreError> {
        let bound = self.settings.journal_bytes;
        let _turn = self.journal_sum.turn.lock().await;
        let begun = Instant::now();
        let mut bytes = self.store.total(Total::JournalBytes(None)).await?;
        let took = begun.elapsed();
        let (mut count, mut freed) = (0_u32, 0_u64);
        while bytes > bound {
            let mut removed = 0_u32;
            for task in self.store.select(TaskQuestion::EndedJournals, MAX_JOURNALS_AT_ONCE).await? {
                if bytes <= bound {
                    break;
                }
                if let Some(size) = self.journals.drop_journal(task).await? {
                    bytes = bytes.saturating_sub(size);
                    freed += size;
                    removed += 1;
                }
            }
            count += removed;
            if removed == 0 {
                // Only those of live tasks are left, or another host removes the same ones.
                break;
            }
        }
        if count > 0 {
            tracing::warn!(
                event = "journal.removed_early",
                count,
                bytes = freed,
                setting = "tasks.journals",
                "journals of ended tasks removed before their ttl"
            );
        }
        let now = Instant::now();
        *self.journal_sum.known.lock() = Some(KnownSum {
            bytes,
            until: now + GOOD_FOR.max(took * TIMES_AS_LONG),
            full_until: (bytes > bound).then(|| now + FULL_FOR),
        });
        Ok(bytes)
    }

    /// Removes the journal of a task that no run continues. If that fails, the journal goes with its task.
    pub(crate) async fn drop_journal(&self, id: TaskId) {
        if let Err(error) = self.journals.drop_journal(id).await {
            tracing::warn!(
                event = "journal.not_removed", task = %id, error = &error as &dyn std::error::Error,
                "cannot remove the journal of a task; it stays as long as the task"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H12: a guest that does so in a loop would keep the disk busy, and so would many of one owner.
    #[test]
    fn a_run_that_begins_again_waits_for_the_share_of_its_owner_and_not_for_that_of_others() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let mebibyte = (1 << 20) - BEGINNING;
        let pauses = [1, 2, 3, 4].map(|_| pace.pause(&Owner::Local, mebibyte, now).as_millis());
        assert_eq!(pauses, [500, 1_000, 1_500, 2_000]);
        assert_eq!(pace.pause(&Owner::Anyone, mebibyte, now).as_millis(), 625, "behind those of all");
        let later = now + Duration::from_secs(3);
        assert_eq!(pace.pause(&Owner::Local, mebibyte, later).as_millis(), 500);
    }
}
