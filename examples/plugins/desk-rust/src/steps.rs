//! Works in parts, and continues from a stored state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_plugin::{Error, ToolResult, continue_with, progress, restored};

/// Each run of the task does this many parts.
const PARTS_PER_RUN: usize = 2;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The number of parts.
    #[schemars(range(min = 1, max = 1_000))]
    parts: usize,
}

/// The state between the runs, and the result.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
pub struct Steps {
    /// The numbers of the parts that are done.
    done: Vec<usize>,
    /// The number of runs so far.
    runs: u32,
}

pub fn steps(Plan { parts }: Plan) -> Result<ToolResult<Steps>, Error> {
    let mut steps: Steps = restored()?.unwrap_or_default();
    steps.runs += 1;
    let mut refusal = None;
    while steps.done.len() < parts {
        let part = steps.done.len() + 1;
        steps.done.push(part); // the real work goes here
        progress(part as f64, parts as f64, "");
        if refusal.is_none() && part < parts && part % PARTS_PER_RUN == 0 {
            // Returns only in a call that does not resume. Then this run does all parts.
            let Err(why) = continue_with(&steps);
            refusal = Some(why);
        }
    }
    let mut text = format!("parts: {parts}, runs: {}", steps.runs);
    if let Some(why) = refusal {
        text.push_str(&format!("; {why}"));
    }
    Ok(ToolResult::new().text(text).structured(steps))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolyard_plugin::testing::{self, Heard};

    use super::*;

    #[test]
    fn a_task_continues_after_two_parts() {
        let result = steps(Plan { parts: 3 }).expect("steps");
        assert_eq!((&result.value().done[..], result.value().runs), (&[1, 2, 3][..], 1));
        let state = json!({ "done": [1, 2], "runs": 1 });
        assert!(testing::heard().contains(&Heard::ContinueWith(state.clone())));
        testing::restore(state);
        let result = steps(Plan { parts: 3 }).expect("steps");
        assert_eq!((&result.value().done[..], result.value().runs), (&[1, 2, 3][..], 2));
    }
}
