//! Remembers which plugin has which resource, from the lists of plugins, so that a request for a
//! URI goes to the plugin that listed it and to no other.
//!
//! The index is bounded, and no request needs it: the host asks plugins for URIs that it lacks.

use parking_lot::Mutex;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::uri_template::{MatchedUri, UriTemplate, normal_uri};
use toolyard_task::Provider;
use toolyard_task::provider::ProviderSpec;

/// The most URIs remembered of one plugin, at 8 bytes each. For other URIs, the host asks the plugins
/// in order.
const MAX_URIS: usize = 100_000;
/// The most templates of one plugin that URIs are compared with, and their total length.
const MAX_TEMPLATES: usize = 256;
const MAX_TEMPLATE_BYTES: usize = 16 << 10;
/// How long the complete list of a plugin counts as recent. A plugin that says that its resources have
/// changed is asked sooner.
const FRESH: Duration = Duration::from_secs(300);
/// How soon a plugin is asked again, however often it says that something has changed.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a plugin is skipped after it was late once; the time doubles with each further time.
const FIRST_PENALTY: Duration = Duration::from_secs(5);
const MAX_PENALTY: Duration = Duration::from_secs(300);
/// Plugins and accounts for which lateness is remembered.
const MAX_LATE: usize = 4_096;

/// The resources that plugins listed, and the plugins that were late.
#[derive(Default)]
pub(crate) struct ResourceIndex {
    /// Keyed at random, so that a plugin cannot choose URIs that collide with another's.
    hasher: RandomState,
    plugins: Mutex<HashMap<String, PluginListing>>,
    /// By account: a run with a small share of the processor is late because of its caller. The lists
    /// of other callers must not lack the plugin because of that.
    late: Mutex<HashMap<(Arc<str>, String), Lateness>>,
}

/// The listing of one plugin.
struct PluginListing {
    /// The provider that listed this. Another provider starts an empty listing.
    provider: Weak<dyn Provider>,
    uris: HashSet<u64>,
    templates: Arc<[UriTemplate]>,
    template_texts: HashSet<String>,
    /// When it was last asked for everything.
    asked: Option<Instant>,
    /// Whether the plugin has reported a change since.
    has_changed: bool,
}

struct Lateness {
    times: u32,
    until: Instant,
}

/// The result of asking one plugin for all its resources.
#[derive(Default)]
pub(crate) struct PluginResources {
    pub uris: Vec<String>,
    /// Whether these are all of its URIs.
    pub is_whole: bool,
    /// `None` if the plugin gave no templates.
    pub templates: Option<Vec<String>>,
}

impl ResourceIndex {
    /// Remembers that a plugin lists these URIs among others.
    pub fn note_uris<'a>(&self, provider: &Arc<dyn Provider>, uris: impl IntoIterator<Item = &'a str>) {
        let hashes: Vec<u64> = uris.into_iter().map(|uri| self.hash(uri)).collect();
        self.with(provider, |listing| listing.add(hashes));
    }

    /// Remembers all templates of a plugin.
    pub fn note_templates<'a>(
        &self,
        provider: &Arc<dyn Provider>,
        templates: impl IntoIterator<Item = &'a str>,
    ) {
        // Parsed before the lock is taken.
        let (texts, parsed) = bounded(templates);
        self.with(provider, |listing| (listing.template_texts, listing.templates) = (texts, parsed));
    }

    /// Remembers the result of asking a plugin for all its resources.
    pub fn note_learnt(&self, provider: &Arc<dyn Provider>, learnt: &PluginResources) {
        let hashes: Vec<u64> = learnt.uris.iter().map(|uri| self.hash(uri)).collect();
        let templates = learnt.templates.as_ref().map(|texts| bounded(texts.iter().map(String::as_str)));
        self.with(provider, |listing| {
            if learnt.is_whole {
                listing.uris.clear();
            }
            listing.add(hashes);
            if let Some((texts, parsed)) = templates {
                (listing.template_texts, listing.templates) = (texts, parsed);
            }
            listing.asked = Some(Instant::now());
            listing.has_changed = false;
        });
    }

    /// Notes that the resources of a plugin have changed; without a name, those of any plugin. The old
    /// listing still counts until the plugin is asked again, so that its URIs go to no other plugin
    /// meanwhile.
    pub fn mark_changed(&self, plugin: Option<&str>) {
        for (name, listing) in self.plugins.lock().iter_mut() {
            if plugin.is_none_or(|plugin| plugin == name) {
                listing.has_changed = true;
            }
        }
    }

    /// Forgets plugins that were unloaded or replaced.
    pub fn retain(&self, providers: &[Arc<dyn Provider>]) {
        let is_loaded = |listing: &PluginListing| {
            providers
                .iter()
                .any(|provider| std::ptr::addr_eq(Arc::as_ptr(provider), listing.provider.as_ptr()))
        };
        self.plugins.lock().retain(|_, listing| is_loaded(listing));
        self.late
            .lock()
            .retain(|(_, plugin), _| providers.iter().any(|provider| provider.spec().plugin == *plugin));
    }

    /// Whether the remembered list of a plugin is recent.
    pub fn is_fresh(&self, provider: &Arc<dyn Provider>) -> bool {
        let plugins = self.plugins.lock();
        let Some(listing) = plugins.get(&provider.spec().plugin).filter(|listing| listing.is_of(provider))
        else {
            return false;
        };
        let time = if listing.has_changed { PAUSE } else { FRESH };
        listing.asked.is_some_and(|asked| asked.elapsed() < time)
    }

    /// The first of these plugins that has listed this URI.
    pub fn plugin_that_lists(&self, providers: &[Arc<dyn Provider>], uri: &str) -> Option<usize> {
        let hash = self.hash(uri);
        let plugins = self.plugins.lock();
        providers.iter().position(|provider| {
            plugins
                .get(&provider.spec().plugin)
                .is_some_and(|listing| listing.is_of(provider) && listing.uris.contains(&hash))
        })
    }

    /// The plugin with the template that fits this URI most exactly; of two alike, the
    /// first.
    pub fn best_template_match(&self, providers: &[Arc<dyn Provider>], uri: &str) -> Option<usize> {
        let mut uri = MatchedUri::new(uri);
        let mut best: Option<((usize, usize), usize)> = None;
        for (at, provider) in providers.iter().enumerate() {
            // Compared outside the lock, because hostile input takes a while.
            let templates = match self.plugins.lock().get(&provider.spec().plugin) {
                Some(listing) if listing.is_of(provider) => listing.templates.clone(),
                _ => continue,
            };
            for template in templates.iter() {
                let exactness = template.exactness();
                if best.is_none_or(|(most, _)| exactness > most) && template.fits(&mut uri) {
                    best = Some((exactness, at));
                }
            }
        }
        best.map(|(_, at)| at)
    }

    /// The first of these plugins that has listed this very template.
    pub fn plugin_that_lists_template(
        &self,
        providers: &[Arc<dyn Provider>],
        template: &str,
    ) -> Option<usize> {
        let plugins = self.plugins.lock();
        providers.iter().position(|provider| {
            plugins
                .get(&provider.spec().plugin)
                .is_some_and(|listing| listing.is_of(provider) && listing.template_texts.contains(template))
        })
    }

    /// How much of `time` a plugin gets on behalf of this account; none while it is skipped.
    pub fn time_budget(&self, account: &Arc<str>, plugin: &str, time: Duration) -> Option<Duration> {
        let late = self.late.lock();
        if late.is_empty() {
            return Some(time);
        }
        match late.get(&(account.clone(), plugin.to_owned())) {
            None => Some(time),
            Some(lateness) if lateness.until > Instant::now() => None,
            Some(lateness) => Some(time / (1 << lateness.times.min(3))),
        }
    }

    /// Notes that a plugin did not end in time. Returns how long it is skipped.
    pub fn mark_late(&self, account: &Arc<str>, plugin: &str) -> Duration {
        let mut late = self.late.lock();
        let now = Instant::now();
        if late.len() >= MAX_LATE {
            late.retain(|_, lateness| lateness.until > now);
            if late.len() >= MAX_LATE {
                late.clear();
            }
        }
        let lateness =
            late.entry((account.clone(), plugin.to_owned())).or_insert(Lateness { times: 0, until: now });
        let penalty = (FIRST_PENALTY * (1 << lateness.times.min(10))).min(MAX_PENALTY);
        lateness.times += 1;
        lateness.until = now + penalty;
        penalty
    }

    /// Notes that a plugin ended in time.
    pub fn mark_in_time(&self, account: &Arc<str>, plugin: &str) {
        let mut late = self.late.lock();
        if !late.is_empty() {
            late.remove(&(account.clone(), plugin.to_owned()));
        }
    }

    fn with(&self, provider: &Arc<dyn Provider>, change: impl FnOnce(&mut PluginListing)) {
        let mut plugins = self.plugins.lock();
        let listing = plugins
            .entry(provider.spec().plugin.clone())
            .and_modify(|listing| {
                if !listing.is_of(provider) {
                    *listing = PluginListing::of(provider);
                }
            })
            .or_insert_with(|| PluginListing::of(provider));
        change(listing);
    }

    fn hash(&self, uri: &str) -> u64 {
        self.hasher.hash_one(normal_uri(uri))
    }
}

impl PluginListing {
    fn of(provider: &Arc<dyn Provider>) -> Self {
        Self {
            provider: Arc::downgrade(provider),
            uris: HashSet::new(),
            templates: Arc::from([]),
            template_texts: HashSet::new(),
            asked: None,
            has_changed: false,
        }
    }

    fn is_of(&self, provider: &Arc<dyn Provider>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(provider), self.provider.as_ptr())
    }

    fn add(&mut self, hashes: Vec<u64>) {
        for hash in hashes {
            if self.uris.len() >= MAX_URIS {
                return;
            }
            self.uris.insert(hash);
        }
    }
}

/// The templates within the bounds, and those of them that URIs can be compared with.
fn bounded<'a>(templates: impl IntoIterator<Item = &'a str>) -> (HashSet<String>, Arc<[UriTemplate]>) {
    let mut bytes = 0;
    let mut texts = HashSet::new();
    let mut parsed = Vec::new();
    for text in templates.into_iter().take(MAX_TEMPLATES) {
        bytes += text.len();
        if bytes > MAX_TEMPLATE_BYTES {
            break;
        }
        if texts.insert(text.to_owned()) {
            parsed.extend(UriTemplate::parse(text));
        }
    }
    (texts, parsed.into())
}

/// The first of these plugins whose manifest claims this URI.
pub(crate) fn plugin_that_claims(providers: &[Arc<dyn Provider>], uri: &str) -> Option<usize> {
    let uri = normal_uri(uri);
    providers.iter().position(|provider| claims(provider.spec(), &uri))
}

/// The first of these plugins whose manifest claims all URIs of this template.
pub(crate) fn plugin_that_claims_template(providers: &[Arc<dyn Provider>], template: &str) -> Option<usize> {
    let template = UriTemplate::parse(template)?;
    providers.iter().position(|provider| {
        let ranges = provider.spec().uris.as_deref().unwrap_or_default();
        ranges.iter().any(|range| range.holds_all(&template))
    })
}

fn claims(spec: &ProviderSpec, normal_uri: &str) -> bool {
    spec.uris.as_deref().unwrap_or_default().iter().any(|range| range.holds(normal_uri))
}

#[cfg(test)]
mod tests;
