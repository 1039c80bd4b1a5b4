//! `[resources]`: the URIs that the resources of a plugin may have.

use crate::values;
use serde::Deserialize;
use serde::de::Deserializer;
use toolyard_task::wire::UriRange;

/// The maximum number of ranges in one manifest: each is compared with each URI.
const MAX_RANGES: usize = 64;

/// The section as in the text.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ResourcesSection {
    #[serde(deserialize_with = "values::list::<MAX_RANGES, _, _, _>")]
    uris: Option<Vec<Range>>,
}

struct Range(UriRange);

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a URI such as \"book:/1\", or the beginning of URIs and a star such as \"book:/*\"";
        values::text(deserializer, expected, UriRange::parse).map(Self)
    }
}

impl ResourcesSection {
    /// The ranges of URIs; `None` if the key is absent.
    pub fn uris(self) -> Option<Vec<UriRange>> {
        self.uris.map(|ranges| ranges.into_iter().map(|Range(range)| range).collect())
    }
}
