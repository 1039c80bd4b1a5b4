//! Work in steps, with progress.

use contract::{ToolResult, host, result};

use crate::inputs::Steps;

/// Sleeps through the steps and reports each one when it is done, to the caller
/// of the call and in the task's status.
pub fn count(Steps { steps, ms }: Steps) -> ToolResult {
    for step in 1..=steps {
        host::sleep(ms);
        let message = format!("step {step} of {steps}");
        host::progress(f64::from(step), Some(f64::from(steps)), Some(&message));
        host::status(&message);
    }
    result::text(format!("counted {steps}"))
}
