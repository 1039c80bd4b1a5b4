//! Decides which plugin gets each tool and prompt name, from the names that the plugins list and
//! the previous owner of each name.
//!
//! A name stays with the plugin file that owns it, whatever is added to the folder later, and
//! across restarts. A plugin that lists a name of another plugin loses only that entry and serves
//! the rest. A plugin keeps its names as long as its file is in the folder and, once its component
//! is known, lists them.
//!
//! If the file is removed while the host runs, another plugin may serve the name meanwhile. The
//! other plugin gives the name back when the file returns, so an operator who removes a file and
//! then copies the next version loses no name. Only a start without the file transfers the name to
//! another plugin that lists it.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of names of removed files, and of names in total.
const MAX_NAMES: usize = 16_384;

/// A name and its kind. Tools and prompts have separate namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Name {
    /// Whether it names a tool or a prompt.
    pub kind: NameKind,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NameKind {
    Tool,
    Prompt,
}

impl NameKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        }
    }
}

/// The plugin that owns a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The file of the plugin, in the folder.
    pub file: String,
    /// The component that last had the name. It identifies a renamed file.
    pub digest: String,
}

/// The owner of each name.
pub(crate) type Owners = BTreeMap<Name, Owner>;

/// A file of the folder, before names are assigned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidate {
    /// The component and the names that it lists; `None` if it is unknown because the file is
    /// refused or disabled.
    pub listed: Option<OfferedNames>,
    /// The previously serving version, if it may continue when the one in the folder gets no names.
    pub previous: Option<OfferedNames>,
}

/// The names that one version of a plugin offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfferedNames {
    pub digest: String,
    pub names: BTreeSet<Name>,
    /// Whether it offers anything without a name, such as resources.
    pub has_more: bool,
}

/// The decision about one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether the previous version serves because the listed one gets no names.
    pub keeps_previous: bool,
    /// Names that the serving version lists but does not get, with the file that has each.
    pub left_out: BTreeMap<Name, String>,
    /// Names that the version in the folder would not get, if the previous version serves.
    pub contested: BTreeMap<Name, String>,
}

/// Decides which names each file gets and returns the new owners. `gone` are the files that were
/// removed since the start.
pub(crate) fn resolve(
    files: &BTreeMap<String, Candidate>,
    owners: &Owners,
    gone: &BTreeSet<String>,
) -> (BTreeMap<String, Outcome>, Owners) {
    let mut previous: BTreeSet<&str> = BTreeSet::new();
    loop {
        let offers: BTreeMap<&str, &OfferedNames> = files
            .iter()
            .filter_map(|(file, candidate)| {
                let keeps_previous = previous.contains(file.as_str());
                let offer = if keeps_previous { &candidate.previous } else { &candidate.listed };
                Some((file.as_str(), offer.as_ref()?))
            })
            .collect();
        let holders = holders(files, &offers, owners);
        let lost = |file: &str, offer: &OfferedNames| -> BTreeMap<Name, String> {
            let lost = offer.names.iter().filter_map(|name| {
                let holder = *holders.get(name)?;
                (holder != file).then(|| (name.clone(), holder.to_owned()))
            });
            lost.collect()
        };
        // A version that gets no names yields to the previous one. The previous version may reclaim
        // its own names from other files, so everything is decided again. Each round adds one such
        // file, so the loop ends.
        let emptied = offers.iter().find(|(file, offer)| {
            let has_nothing = !offer.has_more && lost(file, offer).len() == offer.names.len();
            let before = files.get(**file).and_then(|candidate| candidate.previous.as_ref());
            let is_better = before.is_some_and(|before| {
                let gets = |name: &Name| {
                    owners.get(name).is_some_and(|owner| owner.file == **file)
                        || holders.get(name).is_none_or(|holder| **holder == ***file)
                };
                before.has_more || before.names.iter().any(gets)
            });
            has_nothing && !previous.contains(*file) && is_better
        });
        if let Some((file, _)) = emptied {
            let (file, _) = files.get_key_value(*file).unwrap_or_else(|| unreachable!("it is one of them"));
            previous.insert(file);
            continue;
        }
        let outcomes = files.iter().map(|(file, candidate)| {
            let keeps_previous = previous.contains(file.as_str());
            let lost_by = |offer: &Option<OfferedNames>| offer.as_ref().map(|offer| lost(file, offer));
            let outcome = match keeps_previous {
                false => {
                    Outcome { left_out: lost_by(&candidate.listed).unwrap_or_default(), ..Outcome::default() }
                }
                true => Outcome {
                    keeps_previous,
                    left_out: lost_by(&candidate.previous).unwrap_or_default(),
                    contested: lost_by(&candidate.listed).unwrap_or_default(),
                },
            };
            (file.clone(), outcome)
        });
        let outcomes = outcomes.collect();
        let next = next_owners(files, &offers, &holders, (owners, gone));
        return (outcomes, next);
    }
}

/// The file that gets each name, for names that are offered and for names reserved for a file in
/// the folder.
fn holders<'a>(
    files: &'a BTreeMap<String, Candidate>,
    offers: &BTreeMap<&'a str, &'a OfferedNames>,
    owners: &'a Owners,
) -> BTreeMap<&'a Name, &'a str> {
    let mut holders: BTreeMap<&Name, &str> = BTreeMap::new();
    for (name, owner) in owners {
        let Some((file, _)) = files.get_key_value(&owner.file) else { continue };
        // The names in a refused or disabled file are unknown, so the file keeps the names it had.
        if offers.get(file.as_str()).is_none_or(|offer| offer.names.contains(name)) {
            holders.insert(name, file);
        }
    }
    // A free name goes first to the file whose component had it before, then by file name.
    let was_its = |name: &Name, offer: &OfferedNames| {
        owners.get(name).is_some_and(|owner| owner.digest == offer.digest)
    };
    for had_it in [true, false] {
        for (file, offer) in offers {
            for name in offer.names.iter().filter(|name| was_its(name, offer) == had_it) {
                holders.entry(name).or_insert(file);
            }
        }
    }
    holders
}

fn next_owners(
    files: &BTreeMap<String, Candidate>,
    offers: &BTreeMap<&str, &OfferedNames>,
    holders: &BTreeMap<&Name, &str>,
    (owners, gone): (&Owners, &BTreeSet<String>),
) -> Owners {
    let mut next: Owners = BTreeMap::new();
    for (name, file) in holders {
        if let Some(owner) = owners.get(*name)
            && !files.contains_key(&owner.file)
            && gone.contains(&owner.file)
            && offers.get(*file).is_none_or(|offer| offer.digest != owner.digest)
        {
            next.insert((*name).clone(), owner.clone());
            continue;
        }
        let known = offers.get(*file).map(|offer| offer.digest.clone());
        let digest = known.or_else(|| owners.get(*name).map(|owner| owner.digest.clone()));
        let owner = Owner { file: (*file).to_owned(), digest: digest.unwrap_or_default() };
        next.insert((*name).clone(), owner);
    }
    for (name, owner) in owners {
        if next.len() >= MAX_NAMES {
            break;
        }
        if !files.contains_key(&owner.file) {
            next.entry(name.clone()).or_insert_with(|| owner.clone());
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tool(name: &str) -> Name {
        Name { kind: NameKind::Tool, name: name.to_owned() }
    }

    fn offer<'a>(digest: &str, names: impl IntoIterator<Item = &'a str>) -> OfferedNames {
        let names = names.into_iter().map(tool).collect();
        OfferedNames { digest: digest.to_owned(), names, has_more: false }
    }

    /// Files, each with its digest and the names that it lists. A file without them is refused or disabled.
    fn folder(files: &str) -> BTreeMap<String, Candidate> {
        let candidate = |file: &str| {
            let mut words = file.split_whitespace();
            let name = words.next()?.to_owned();
            let listed = words.next().map(|digest| offer(digest, words));
            Some((name, Candidate { listed, previous: None }))
        };
        files.split(';').filter_map(candidate).collect()
    }

    /// The decision at a start.
    fn start(files: &BTreeMap<String, Candidate>, owners: &Owners) -> (BTreeMap<String, Outcome>, Owners) {
        resolve(files, owners, &BTreeSet::new())
    }

    /// The owners after a first start.
    fn owners_of(files: &str) -> Owners {
        start(&folder(files), &Owners::new()).1
    }

    /// The files that may not serve a name, each with its names.
    fn left_out(outcomes: &BTreeMap<String, Outcome>) -> String {
        let names = outcomes.iter().flat_map(|(file, outcome)| {
            outcome.left_out.keys().map(move |name| format!("{file} {}", name.name))
        });
        names.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn at_a_start_a_name_stays_with_its_file_or_goes_to_the_first_that_lists_it() {
        // The folder before and now, the names that are left out now, and the owner of `x` from now on.
        for (case, before, now, loses, owner) in [
            ("newcomers get free names by the alphabet", "", "b b x y; a a x", "b x", "a a"),
            ("a collision takes out one entry", "p p x w", "a a x o; p p2 x w", "a x", "p p2"),
            ("a file that is refused or disabled keeps its names", "p p x", "a a x; p", "a x", "p p"),
            ("a name that its owner lists no more is free", "p p x y", "a a x; p p2 y", "", "a a"),
            ("a file that is gone loses its names to who wants them", "p p x", "a a x", "", "a a"),
            ("a component that was renamed takes its names along", "p p x", "a a x; z p x", "a x", "z p"),
        ] {
            let (outcomes, owners) = start(&folder(now), &owners_of(before));
            assert_eq!(left_out(&outcomes), loses, "{case}");
            let Owner { file, digest } = &owners[&tool("x")];
            assert_eq!(format!("{file} {digest}"), owner, "{case}");
        }
    }

    /// Such as a volume that is not mounted yet.
    #[test]
    fn an_empty_folder_takes_no_name_from_its_owner() {
        let (_, owners) = start(&folder(""), &owners_of("p p x"));
        assert_eq!(left_out(&start(&folder("a a x; p p x"), &owners).0), "a x");
    }

    #[test]
    fn a_name_of_a_file_that_goes_while_the_host_runs_is_lent_until_it_returns() {
        let owners = owners_of("p p x");
        let gone = BTreeSet::from(["p".to_owned()]);
        let alone = folder("a a x");
        let (outcomes, lent) = resolve(&alone, &owners, &gone);
        assert_eq!(left_out(&outcomes), "", "it serves");
        assert_eq!(lent, owners, "and does not own");
        assert_eq!(left_out(&resolve(&folder("a a x; p p2 x"), &lent, &gone).0), "a x");
        // The next start makes the other file the owner.
        let (_, owners) = start(&alone, &lent);
        assert_eq!(left_out(&resolve(&folder("a a x; p p x"), &owners, &gone).0), "p x");
        // A renamed file becomes the owner immediately.
        assert_eq!(resolve(&folder("a a x; z p x"), &lent, &gone).1[&tool("x")].file, "z");
    }

    #[test]
    fn a_version_that_is_left_with_nothing_gives_way_to_the_one_before() {
        let mut files = folder("a a x; b b2 x; c c y");
        files.get_mut("b").expect("there").previous = Some(offer("b", ["y"]));
        let (outcomes, owners) = start(&files, &owners_of("a a x; b b y"));
        assert!(outcomes["b"].keeps_previous);
        assert_eq!(outcomes["b"].contested[&tool("x")], "a");
        assert!(
            outcomes["c"].left_out.contains_key(&tool("y")),
            "the previous version goes on and keeps its name"
        );
        assert_eq!(owners[&tool("y")].file, "b");
    }

    #[test]
    fn prompts_and_tools_of_one_name_do_not_meet() {
        let mut files = folder("a a x; b b");
        let prompt = Name { kind: NameKind::Prompt, name: "x".to_owned() };
        files.get_mut("b").and_then(|b| b.listed.as_mut()).expect("there").names.insert(prompt);
        assert_eq!(left_out(&start(&files, &Owners::new()).0), "");
    }

    fn some_folder() -> impl Strategy<Value = BTreeMap<String, Candidate>> {
        let file = proptest::sample::select(vec!["a.wasm", "b.wasm", "c.wasm", "d.wasm"]);
        let names =
            proptest::collection::btree_set(proptest::sample::select(vec!["v", "w", "x", "y", "z"]), 0..4);
        let offer = (proptest::sample::select(vec!["1", "2", "3"]), names, any::<bool>()).prop_map(
            |(digest, names, has_more)| OfferedNames {
                digest: digest.to_owned(),
                names: names.into_iter().map(tool).collect(),
                has_more,
            },
        );
        let candidate =
            (proptest::option::weighted(0.8, offer.clone()), proptest::option::weighted(0.3, offer))
                .prop_map(|(listed, previous)| Candidate { previous: listed.as_ref().and(previous), listed });
        proptest::collection::btree_map(file.prop_map(str::to_owned), candidate, 0..5)
    }

    proptest! {
        /// However the folder changes: each name has one server, a file that had a name and still
        /// lists it keeps it, and deciding again changes nothing.
        #[test]
        fn names_have_one_server_and_stay(folders in proptest::collection::vec(some_folder(), 1..6), runs in any::<bool>()) {
            let mut owners = Owners::new();
            let mut gone = BTreeSet::new();
            let mut before = BTreeSet::new();
            for files in folders {
                let here: BTreeSet<String> = files.keys().cloned().collect();
                if runs {
                    gone.extend(before.difference(&here).cloned());
                }
                before = here;
                let (outcomes, next) = resolve(&files, &owners, &gone);
                let mut served: BTreeMap<&Name, &str> = BTreeMap::new();
                for (file, candidate) in &files {
                    let outcome = &outcomes[file];
                    let offer = if outcome.keeps_previous { &candidate.previous } else { &candidate.listed };
                    for name in offer.iter().flat_map(|offer| &offer.names) {
                        match outcome.left_out.get(name) {
                            Some(owner) => prop_assert_ne!(owner, file),
                            None => prop_assert_eq!(served.insert(name, file), None),
                        }
                    }
                }
                for (name, file) in &served {
                    let owner = &next[*name].file;
                    prop_assert!(owner == file || (!files.contains_key(owner) && gone.contains(owner)));
                }
                for (name, owner) in &owners {
                    let Some(candidate) = files.get(&owner.file) else { continue };
                    let still = candidate.listed.as_ref().is_none_or(|offer| offer.names.contains(name));
                    if still && !outcomes[&owner.file].keeps_previous {
                        prop_assert_eq!(&next[name].file, &owner.file, "{:?}", name);
                    }
                }
                // Where a previous version serves, the names that it frees may let the newer one
                // serve next time.
                if outcomes.values().all(|outcome| !outcome.keeps_previous) {
                    prop_assert_eq!(&resolve(&files, &next, &gone), &(outcomes, next.clone()));
                }
                owners = next;
            }
        }
    }
}
