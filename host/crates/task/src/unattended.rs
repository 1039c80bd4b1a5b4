//! Runs that no client requested, such as those that ask a new component for its offers.

use crate::error::AskError;
use crate::tool::{AskedQuestion, CallInfo, GivenAnswer, Report, RunContext};
use crate::wire::RawJson;
use async_trait::async_trait;

/// The context of a run that no client requested: its reports are dropped, and its questions get no
/// answer.
#[derive(Debug, Clone, Copy)]
pub struct Unattended;

#[async_trait]
impl RunContext for Unattended {
    fn stopped(&self) -> bool {
        false
    }

    fn report(&self, _: Report) {}

    fn info(&self) -> CallInfo {
        CallInfo {
            task: None,
            attempt: 1,
            deadline: None,
            client_capabilities: RawJson::empty_object(),
            trace: None,
        }
    }

    async fn ask(&self, _: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        Err(AskError::Unsupported("a listing cannot ask".to_owned()))
    }

    async fn begin_task(&self) -> Result<(), String> {
        Ok(())
    }

    async fn effects(&self) -> Result<(), AskError> {
        Ok(())
    }
}
