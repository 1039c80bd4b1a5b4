//! A store in memory that can be made to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use toolyard_kit::{Intercept, StoreProxy, memory};
use toolyard_store::MemoryStore;
use toolyard_task::StoreError;

/// The operations that can fail.
const OPERATIONS: [&str; 4] = ["create", "read", "commit", "search"];

/// The coming faults, and the operations so far.
#[derive(Default)]
pub struct Faults {
    /// The number of operations that fail from now on.
    pub failures: AtomicU32,
    pub used: AtomicBool,
    /// The number of operations that succeed before that.
    pub spared: AtomicU32,
    /// The number of commits that are done and then reported as failed.
    pub unheard: AtomicU32,
    /// Reads and writes so far.
    pub operations: AtomicU32,
}

/// Takes one of this number, if any are left.
fn take(from: &AtomicU32) -> bool {
    from.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Intercept for Faults {
    async fn call<T: Send, E: From<StoreError> + Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let failed = || E::from(StoreError::Unavailable("a fault".into()));
        if OPERATIONS.contains(&operation) {
            self.used.store(true, Ordering::SeqCst);
            self.operations.fetch_add(1, Ordering::SeqCst);
            if !take(&self.spared) && take(&self.failures) {
                return Err(failed());
            }
        }
        let done = call.await?;
        if operation == "commit" && take(&self.unheard) { Err(failed()) } else { Ok(done) }
    }
}

pub type Faulty = StoreProxy<Faults>;

pub fn faulty(failures: u32) -> (Arc<MemoryStore>, Arc<Faulty>) {
    let store = memory();
    let faults = Faults { failures: AtomicU32::new(failures), ..Faults::default() };
    (store.clone(), StoreProxy::new(store, faults))
}
