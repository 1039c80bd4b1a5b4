//! Finds the plugin that a URI belongs to, by the claims of manifests (`[resources] uris`).

use std::sync::Arc;
use toolyard_protocol::uri_range::{UriRange, normal_uri};
use toolyard_task::Provider;

/// The first of these plugins whose manifest claims this URI.
pub(super) fn claimant<'a>(providers: &'a [Arc<dyn Provider>], uri: &str) -> Option<&'a Arc<dyn Provider>> {
    let uri = normal_uri(uri);
    first_with(providers, |range| range.holds(&uri))
}

/// The first of these plugins whose manifest claims all URIs of this template.
pub(super) fn template_claimant<'a>(
    providers: &'a [Arc<dyn Provider>],
    template: &str,
) -> Option<&'a Arc<dyn Provider>> {
    let template = normal_uri(template);
    first_with(providers, |range| range.holds_template(&template))
}

fn first_with(
    providers: &[Arc<dyn Provider>],
    holds: impl Fn(&UriRange) -> bool,
) -> Option<&Arc<dyn Provider>> {
    let claims = |provider: &&Arc<dyn Provider>| provider.spec().uris.iter().flatten().any(&holds);
    providers.iter().find(claims)
}

/// Whether a plugin may have a URI with this claimant. A URI that no manifest claims may belong to any
/// plugin whose manifest claims nothing.
pub(super) fn may_have(claimant: Option<&Arc<dyn Provider>>, provider: &Arc<dyn Provider>) -> bool {
    match claimant {
        Some(claimant) => Arc::ptr_eq(claimant, provider),
        None => provider.spec().uris.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::admission::tests::Idle;

    fn provider(plugin: &str, uris: Option<&[&str]>) -> Arc<dyn Provider> {
        let mut provider = Idle::of(plugin);
        let range = |text: &&str| UriRange::parse(text).expect("a range");
        provider.spec.uris = uris.map(|uris| uris.iter().map(range).collect());
        Arc::new(provider)
    }

    /// The names of the plugins that may have a URI with this claimant.
    fn owners(all: &[Arc<dyn Provider>], claimant: Option<&Arc<dyn Provider>>) -> String {
        let owners = all.iter().filter(|provider| may_have(claimant, provider));
        owners.map(|provider| provider.spec().plugin.as_str()).collect()
    }

    #[test]
    fn a_uri_or_template_belongs_to_the_first_plugin_that_claims_it_else_to_those_that_claim_nothing() {
        let all = [
            provider("a", None),
            provider("b", Some(&["book:/*"])),
            provider("c", Some(&["book:/1"])),
            provider("d", None),
            provider("e", Some(&[])),
        ];
        for (uri, expected) in [("book:/1", "b"), ("BOOK:/2", "b"), ("note:/1", "ad"), ("book:/../1", "ad")] {
            assert_eq!(owners(&all, claimant(&all, uri)), expected, "{uri}");
        }
        // A template belongs to the plugin that claims all its URIs.
        for template in ["book:/{n}", "Book:/x/{n}", "book:/1{n}"] {
            assert_eq!(owners(&all, template_claimant(&all, template)), "b", "{template}");
        }
        for template in ["book:{+n}", "{+any}"] {
            assert_eq!(owners(&all, template_claimant(&all, template)), "ad", "{template}");
        }
    }
}
