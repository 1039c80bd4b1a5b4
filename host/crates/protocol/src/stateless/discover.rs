//! `server/discover` (26D-1, 26D-2).

use super::{TASKS, VERSION};
use crate::RawJson;
use crate::initialize::{Offers, ServerIdentity};
use serde_json::json;

/// The result of `server/discover`, without what every result gets when it leaves
/// ([`complete_cached`](super::result::complete_cached)).
#[must_use]
pub fn discover(identity: &ServerIdentity, offers: Offers) -> RawJson {
    let mut capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
    if offers.resources {
        capabilities["resources"] = json!({"subscribe": true, "listChanged": true});
    }
    if offers.prompts {
        capabilities["prompts"] = json!({"listChanged": true});
    }
    if offers.completions {
        capabilities["completions"] = json!({});
    }
    if identity.tasks {
        capabilities["extensions"] = json!({TASKS: {}});
    }
    // The versions that a request may claim, and no others (26D-4).
    let mut result = json!({"supportedVersions": [VERSION], "capabilities": capabilities});
    if let Some(instructions) = &identity.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    RawJson::of(&result)
}
