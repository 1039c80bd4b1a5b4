//! Work in steps, with progress reports.

use std::time::Duration;

use toolyard_plugin::{Error, progress, sleep, status};

use crate::inputs::Steps;

/// Sleeps before each step, then reports it to the caller and in the task's status message.
pub fn count(Steps { steps, ms }: Steps) -> Result<String, Error> {
    for step in 1..=steps {
        sleep(Duration::from_millis(ms));
        let message = format!("step {step} of {steps}");
        progress(f64::from(step), f64::from(steps), &message);
        status(&message);
    }
    Ok(format!("counted {steps}"))
}
