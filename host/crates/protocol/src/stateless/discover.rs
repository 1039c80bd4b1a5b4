//! `server/discover` (26D-1, 26D-2).

use super::{TASKS, VERSION};
use crate::initialize::ServerIdentity;
use crate::offers::Offers;
use crate::raw::RawJson;
use serde_json::json;

/// The result of `server/discover`, without the members that every result gets when it leaves
/// ([`complete_cached`](super::result::complete_cached)).
#[must_use]
pub fn discover(identity: &ServerIdentity, offers: Offers) -> RawJson {
    let mut capabilities = offers.capabilities();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initialize::Implementation;
    use serde_json::Value;

    fn of(tasks: bool, offers: Offers, instructions: Option<&str>) -> Value {
        let info = Implementation { name: "n".into(), title: None, version: "1".into() };
        let identity = ServerIdentity { info, instructions: instructions.map(str::to_owned), tasks };
        discover(&identity, offers).decode().expect("JSON")
    }

    /// 26D-1, 26D-2, 26D-4, 26D-8, 26B-4: the offers, the extension under its full name as an empty object, no
    /// capability of the other generation, and only the version that can be claimed.
    #[test]
    fn what_is_offered_is_declared_and_nothing_else() {
        let capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
        let mut expected = json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities});
        assert_eq!(of(false, Offers::default(), None), expected);
        let capabilities = &mut expected["capabilities"];
        capabilities["resources"] = json!({"subscribe": true, "listChanged": true});
        capabilities["prompts"] = json!({"listChanged": true});
        capabilities["completions"] = json!({});
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        expected["instructions"] = "Read \"me\".".into();
        let offers = Offers { resources: true, prompts: true, completions: true };
        assert_eq!(of(true, offers, Some("Read \"me\".")), expected);
    }
}
