//! Components by the digest of their bytes. Each is loaded once, however many files contain it, and
//! a refused component is not compiled again.

use crate::error::Refusal;
use crate::run::loaded::LoadedComponent;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The maximum number of remembered refusals. More are not worth the memory: a forgotten refusal
/// only costs another compilation.
const MAX_REFUSALS: usize = 4_096;
/// How long a refusal is remembered. A busy machine may be idle later, and an operator who copies
/// the file again expects another attempt.
const REFUSAL_TIME: Duration = Duration::from_secs(600);

/// The components that this process knows.
#[derive(Default)]
pub(crate) struct ComponentRegistry(Mutex<Known>);

#[derive(Default)]
struct Known {
    entries: HashMap<String, Entry>,
    refusals: usize,
    /// The number of entries at which those of dropped components are removed.
    sweep_at: usize,
}

enum Entry {
    Loaded(Weak<LoadedComponent>),
    Refused(Refusal, Instant),
    Loading(watch::Receiver<()>),
}

/// The registry's answer about a component.
pub(crate) enum Lookup {
    Loaded(Arc<LoadedComponent>),
    Refused(Refusal),
    /// The component is being loaded; the receiver completes when the load ends.
    Busy(watch::Receiver<()>),
    /// The component is unknown, and the holder of the permit loads it.
    Vacant(LoadPermit),
}

/// The right to load one component. While it exists, the other files with this component wait.
pub(crate) struct LoadPermit {
    components: Arc<ComponentRegistry>,
    digest: String,
    /// Dropping it wakes the waiting loads.
    _loading: watch::Sender<()>,
}

impl ComponentRegistry {
    /// Looks up a component, and returns a permit if it is unknown.
    pub fn find(self: &Arc<Self>, digest: &str) -> Lookup {
        let mut known = self.0.lock();
        match known.entries.get(digest) {
            Some(Entry::Refused(why, since)) if since.elapsed() < REFUSAL_TIME => {
                return Lookup::Refused(why.clone());
            }
            Some(Entry::Refused(..)) => known.refusals -= 1,
            Some(Entry::Loading(loading)) => return Lookup::Busy(loading.clone()),
            Some(Entry::Loaded(code)) => {
                if let Some(code) = code.upgrade() {
                    return Lookup::Loaded(code);
                }
            }
            None => {}
        }
        let (sender, loading) = watch::channel(());
        known.entries.insert(digest.to_owned(), Entry::Loading(loading));
        Lookup::Vacant(LoadPermit { components: self.clone(), digest: digest.to_owned(), _loading: sender })
    }

    /// A component that has optimised code.
    pub fn optimized(&self, digest: &str) -> Option<Arc<LoadedComponent>> {
        match self.0.lock().entries.get(digest) {
            Some(Entry::Loaded(code)) => code.upgrade().filter(|code| !code.is_quick),
            _ => None,
        }
    }

    /// Puts a component in place of the same one with quick code.
    pub fn replace(&self, code: &Arc<LoadedComponent>) {
        if let Some(entry @ Entry::Loaded(_)) = self.0.lock().entries.get_mut(&code.digest.0) {
            *entry = Entry::Loaded(Arc::downgrade(code));
        }
    }
}

impl LoadPermit {
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Records the outcome for all files with this component.
    pub fn settle(self, outcome: &Result<Arc<LoadedComponent>, Refusal>) {
        let mut known = self.components.0.lock();
        let entry = match outcome {
            Ok(code) => Entry::Loaded(Arc::downgrade(code)),
            Err(why) if why.is_lasting() && known.refusals < MAX_REFUSALS => {
                known.refusals += 1;
                Entry::Refused(why.clone(), Instant::now())
            }
            // Dropping the permit removes the entry.
            Err(_) => return,
        };
        known.entries.insert(self.digest.clone(), entry);
        if known.entries.len() >= known.sweep_at {
            let is_gone = |entry: &Entry| matches!(entry, Entry::Loaded(code) if code.strong_count() == 0);
            known.entries.retain(|_, entry| !is_gone(entry));
            known.sweep_at = (known.entries.len() * 2).max(64);
        }
    }
}

impl Drop for LoadPermit {
    fn drop(&mut self) {
        let mut known = self.components.0.lock();
        if matches!(known.entries.get(&self.digest), Some(Entry::Loading(_))) {
            known.entries.remove(&self.digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(components: &Arc<ComponentRegistry>, digest: &str) -> LoadPermit {
        match components.find(digest) {
            Lookup::Vacant(claim) => claim,
            _ => panic!("{digest} is known"),
        }
    }

    #[tokio::test]
    async fn one_file_loads_a_component_and_the_others_wait_for_it() {
        let components = Arc::new(ComponentRegistry::default());
        let first = claim(&components, "a");
        let Lookup::Busy(mut other) = components.find("a") else { panic!("it is being loaded") };
        drop(claim(&components, "b"));
        drop(first);
        assert!(other.changed().await.is_err(), "the wait has ended");
        // The permit was dropped, so the next look-up loads the component.
        claim(&components, "a").settle(&Err(Refusal::CompileTime(Duration::from_secs(1))));
        assert!(matches!(components.find("a"), Lookup::Refused(Refusal::CompileTime(_))));
    }

    #[test]
    fn a_refusal_that_may_pass_is_not_remembered() {
        let components = Arc::new(ComponentRegistry::default());
        for why in [
            Refusal::Unreadable("busy".to_owned()),
            Refusal::NoCompiler("too many open files".to_owned()),
            Refusal::Interrupted,
        ] {
            claim(&components, "a").settle(&Err(why));
        }
        drop(claim(&components, "a"));
    }

    #[test]
    fn the_number_of_refusals_is_bounded() {
        let components = Arc::new(ComponentRegistry::default());
        for number in 0..2 * MAX_REFUSALS {
            claim(&components, &number.to_string()).settle(&Err(Refusal::Toolless));
        }
        assert_eq!(components.0.lock().entries.len(), MAX_REFUSALS);
    }
}
