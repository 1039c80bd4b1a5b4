//! `[resources]`: which URIs the resources of a plugin may have.

use super::read::Section;
use crate::error::ManifestError;
use toolyard_task::wire::UriRange;

/// The most ranges of one manifest: each is compared with each URI.
const MAX_RANGES: usize = 64;

/// The ranges of URIs in `uris`; none where the key is absent.
pub(super) fn uris(section: &Section<'_>) -> Result<Option<Vec<UriRange>>, ManifestError> {
    let mut ranges = None;
    for entry in section.entries() {
        match entry.key() {
            "uris" => {
                let range = |item: &super::Entry<'_>| {
                    UriRange::parse(item.text()?).ok_or_else(|| {
                        item.expected(
                            "a URI such as \"book:/1\", or the beginning of URIs and a star such as \"book:/*\"",
                        )
                    })
                };
                ranges = Some(entry.items(MAX_RANGES)?.iter().map(range).collect::<Result<_, _>>()?);
            }
            _ => return Err(entry.unknown(&["uris"])),
        }
    }
    Ok(ranges)
}
