//! The context of the listing functions, which run without a caller. They cannot return an error, so a library
//! logs its own, such as that of a schema, before it traps.

use async_trait::async_trait;
use parking_lot::Mutex;
use toolyard_task::tool::{AskedQuestion, CallInfo, GivenAnswer, Report};
use toolyard_task::wire::{LogLevel, visible};
use toolyard_task::{AskError, RunContext, Unattended};

/// Hears errors, and nothing else.
#[derive(Default)]
pub(crate) struct Listing {
    complaint: Mutex<Option<String>>,
}

/// The maximum length of a complaint, in bytes.
const MAX_COMPLAINT_BYTES: usize = 1 << 10;

impl Listing {
    /// The last error that the component logged.
    pub fn complaint(&self) -> Option<String> {
        self.complaint.lock().take()
    }
}

#[async_trait]
impl RunContext for Listing {
    fn stopped(&self) -> bool {
        Unattended.stopped()
    }

    fn report(&self, report: Report) {
        let Report::Log { level: LogLevel::Error, data, .. } = report else { return };
        let text = serde_json::from_str(data.as_str()).unwrap_or_else(|_| data.as_str().to_owned());
        let text = visible::line(&text);
        let end = text.floor_char_boundary(MAX_COMPLAINT_BYTES);
        *self.complaint.lock() = Some(text[..end].to_owned());
    }

    fn info(&self) -> CallInfo {
        Unattended.info()
    }

    async fn ask(&self, questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        Unattended.ask(questions).await
    }

    async fn begin_task(&self) -> Result<(), String> {
        Unattended.begin_task().await
    }

    async fn effects(&self) -> Result<(), AskError> {
        Unattended.effects().await
    }
}
