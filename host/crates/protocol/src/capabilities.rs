//! The capabilities that a client declares (L-6, E-1, M-1, Q-1). The presence of a member counts:
//! `{}` means yes, absence means no.

use crate::raw::RawJson;
use serde::Deserialize;
use serde_json::Value;

/// The capabilities of a client that decide which questions it may be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Forms; also where `elicitation` is empty (E-1).
    pub form: bool,
    /// Pages that the user is sent to.
    pub url: bool,
    /// Sampling.
    pub sampling: bool,
    /// Sampling with tools (M-1).
    pub sampling_tools: bool,
    /// Sampling with the context of servers (M-1).
    pub sampling_context: bool,
    /// Roots.
    pub roots: bool,
    /// The client runs elicitations as tasks (Q-1).
    pub elicitation_tasks: bool,
    /// The client runs samplings as tasks (Q-1).
    pub sampling_tasks: bool,
    /// The tasks of the client can be cancelled (Q-7).
    pub cancels_tasks: bool,
    /// The client declares tasks of any kind.
    pub tasks: bool,
}

impl ClientCapabilities {
    /// Reads the `capabilities` of `initialize`. A member of another shape counts as absent.
    #[must_use]
    pub fn of(capabilities: &RawJson) -> Self {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            elicitation: Value,
            #[serde(default)]
            sampling: Value,
            #[serde(default)]
            roots: Value,
            #[serde(default)]
            tasks: Value,
        }
        let Ok(wire) = capabilities.decode::<Wire>() else { return Self::default() };
        let elicitation = wire.elicitation.as_object();
        let url = wire.elicitation["url"].is_object();
        Self {
            form: elicitation.is_some() && (wire.elicitation["form"].is_object() || !url),
            url,
            sampling: wire.sampling.is_object(),
            sampling_tools: wire.sampling["tools"].is_object(),
            sampling_context: wire.sampling["context"].is_object(),
            roots: wire.roots.is_object(),
            elicitation_tasks: wire.tasks["requests"]["elicitation"]["create"].is_object(),
            sampling_tasks: wire.tasks["requests"]["sampling"]["createMessage"].is_object(),
            cancels_tasks: wire.tasks["cancel"].is_object(),
            tasks: wire.tasks.is_object(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E-1: an empty elicitation means forms only. L-6: being there is what counts. Q-1: tasks of the client are named
    /// one by one.
    #[test]
    fn e_1_l_6_q_1_what_is_there_as_an_object_counts() {
        let none = ClientCapabilities::default();
        let with_tasks = ClientCapabilities { tasks: true, ..none };
        let sampling = ClientCapabilities { sampling: true, ..none };
        for (text, expected) in [
            ("{}", none),
            (r#"{"elicitation":{}}"#, ClientCapabilities { form: true, ..none }),
            (r#"{"elicitation":{"form":{}}}"#, ClientCapabilities { form: true, ..none }),
            (r#"{"elicitation":{"url":{}}}"#, ClientCapabilities { url: true, ..none }),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, ClientCapabilities { form: true, url: true, ..none }),
            (r#"{"sampling":{}}"#, sampling),
            (r#"{"sampling":null,"roots":false,"elicitation":1,"tasks":[]}"#, none),
            (r#"{"sampling":{"tools":{}}}"#, ClientCapabilities { sampling_tools: true, ..sampling }),
            (r#"{"sampling":{"context":{}}}"#, ClientCapabilities { sampling_context: true, ..sampling }),
            (r#"{"roots":{"listChanged":true}}"#, ClientCapabilities { roots: true, ..none }),
            (
                r#"{"tasks":{"requests":{"sampling":{"createMessage":{}}}}}"#,
                ClientCapabilities { sampling_tasks: true, ..with_tasks },
            ),
            (
                r#"{"tasks":{"cancel":{},"requests":{"elicitation":{"create":{}}}}}"#,
                ClientCapabilities { elicitation_tasks: true, cancels_tasks: true, ..with_tasks },
            ),
            (r#"{"tasks":{}}"#, with_tasks),
        ] {
            assert_eq!(ClientCapabilities::of(&RawJson::trusted(text)), expected, "{text}");
        }
    }
}
