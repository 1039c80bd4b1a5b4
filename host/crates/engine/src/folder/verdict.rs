//! Decides which version of a plugin serves, from the state of its file and the names that it gets.

use crate::error::{LoadError, Refusal};
use crate::folder::names::{Name, OfferedNames, Outcome};
use crate::folder::snapshot::PluginState;

/// The state of one file, apart from its names.
pub(crate) enum FileState<'a> {
    /// The manifest disables the file.
    Disabled,
    Refused(Refusal),
    Ready {
        offer: &'a OfferedNames,
        /// Why the component in the folder is not the one that would serve.
        fault: Option<&'a Refusal>,
    },
}

/// The version of a plugin that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    None,
    /// The last one that could be loaded with the manifest in the folder.
    Current,
    /// The one that served before.
    Previous,
}

/// Decides about one file. A version that gets none of its names is refused, unless the previous
/// version can continue.
pub(crate) fn decide(file: &str, state: FileState<'_>, outcome: &Outcome) -> (Version, PluginState) {
    let says = |why: Refusal| LoadError { file: file.to_owned(), why }.to_string();
    let (offer, fault) = match state {
        FileState::Disabled => return (Version::None, PluginState::Disabled),
        FileState::Refused(why) => return (Version::None, PluginState::Refused { why: says(why) }),
        FileState::Ready { offer, fault } => (offer, fault),
    };
    if outcome.keeps_previous
        && let Some(lost) = outcome.contested.iter().next()
    {
        return (Version::Previous, PluginState::KeptPrevious { why: says(collision(file, lost)) });
    }
    let has_nothing = !offer.has_more && outcome.left_out.len() == offer.names.len();
    if has_nothing && let Some(lost) = outcome.left_out.iter().next() {
        return (Version::None, PluginState::Refused { why: says(collision(file, lost)) });
    }
    let state = match fault {
        None => PluginState::Serving,
        Some(why) => PluginState::KeptPrevious { why: says(why.clone()) },
    };
    (Version::Current, state)
}

/// A sentence for each name that a version does not get.
pub(crate) fn left_out(file: &str, outcome: &Outcome) -> Vec<String> {
    let says = |lost| LoadError { file: file.to_owned(), why: collision(file, lost) }.to_string();
    outcome.left_out.iter().map(says).collect()
}

fn collision(file: &str, (name, holder): (&Name, &String)) -> Refusal {
    Refusal::Collision {
        kind: name.kind.as_str(),
        name: name.name.clone(),
        first: holder.clone(),
        second: file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::names::NameKind;
    use std::collections::BTreeMap;

    fn lost(names: &[&str]) -> BTreeMap<Name, String> {
        let name = |name: &&str| Name { kind: NameKind::Tool, name: (*name).to_owned() };
        names.iter().map(|each| (name(each), "first.wasm".to_owned())).collect()
    }

    fn outcome(keeps_previous: bool, left_out: &[&str], contested: &[&str]) -> Outcome {
        Outcome { keeps_previous, left_out: lost(left_out), contested: lost(contested) }
    }

    #[test]
    fn the_version_that_serves_follows_from_the_file_and_its_names() {
        let names = |names: &[&str], has_more| OfferedNames {
            digest: "d".to_owned(),
            names: lost(names).into_keys().collect(),
            has_more,
        };
        let (two, resources, nothing) = (names(&["x", "y"], false), names(&["x"], true), names(&[], false));
        let fault = Refusal::Toolless;
        let ready = |offer, fault| FileState::Ready { offer, fault };
        let all = outcome(false, &["x", "y"], &[]);
        let (one, none) = (outcome(false, &["x"], &[]), Outcome::default());
        let former = outcome(true, &[], &["x", "y"]);
        let faulty = ready(&two, Some(&fault));
        for (case, state, outcome, version, reported) in [
            ("disabled", FileState::Disabled, &all, Version::None, "disabled"),
            ("refused", FileState::Refused(Refusal::Symlink), &all, Version::None, "refused: symbolic link"),
            ("all names", ready(&two, None), &none, Version::Current, "serving"),
            ("some names", ready(&two, None), &one, Version::Current, "serving"),
            ("no name", ready(&two, None), &all, Version::None, "refused: tool `x`"),
            ("resources alone", ready(&resources, None), &one, Version::Current, "serving"),
            ("offers nothing", ready(&nothing, None), &none, Version::Current, "serving"),
            ("a faulty component", faulty, &none, Version::Current, "kept: `list-tools` gave no tools"),
            ("the version before", ready(&two, None), &former, Version::Previous, "kept: tool `x`"),
        ] {
            let (serves, state) = decide("second.wasm", state, outcome);
            assert_eq!(serves, version, "{case}");
            let (word, why) = match &state {
                PluginState::Serving => ("serving", ""),
                PluginState::Disabled => ("disabled", ""),
                PluginState::Refused { why } => ("refused", why.as_str()),
                PluginState::KeptPrevious { why } => ("kept", why.as_str()),
            };
            let (expected, says) = reported.split_once(": ").unwrap_or((reported, ""));
            assert_eq!(word, expected, "{case}");
            assert!(why.contains(says), "{case}: {why}");
        }
    }

    #[test]
    fn a_name_that_is_left_out_is_reported_with_its_holder() {
        let lost = outcome(false, &["x"], &[]);
        let [why] = &left_out("second.wasm", &lost)[..] else { panic!("one name") };
        assert!(why.starts_with("second.wasm: ") && why.contains("first.wasm had it before"), "{why}");
        assert!(left_out("second.wasm", &Outcome::default()).is_empty());
    }
}
