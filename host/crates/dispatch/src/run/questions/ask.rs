//! A guest asks the client (IR-1 to IR-10).

use crate::client::client_channel::{ClientChannel, RouteScope};
use crate::observe::event::RunEvent;
use crate::run::promotion::{NotPromoted, PromotionCause};
use crate::run::questions::pending::{KEYS, PendingQuestion};
use crate::run::questions::{in_rounds, in_task, plain};
use crate::run::run::Run;
use crate::task::questions::QuestionRecipient;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::question::{self, Kind};
use toolyard_protocol::{ClientCapabilities, RpcError};
use toolyard_task::tool::{AskedQuestion, GivenAnswer};
use toolyard_task::{AskError, StoreError, Task};

/// How long a client whose connection broke may take to come back before a question is sent on another
/// route.
const COMES_BACK: Duration = Duration::from_secs(10);
/// The longest key of a question.
const MAX_KEY_BYTES: usize = 128;

impl Run {
    /// The channel for the questions of its task.
    pub fn question_channel(&self) -> &Arc<dyn ClientChannel> {
        self.bridge().map_or(&self.client.channel, |bridge| &bridge.task_channel)
    }

    /// Sends the open questions of its task to its client.
    pub(super) async fn offer(&self, task: &Task, scope: RouteScope) -> Result<(), StoreError> {
        let to = QuestionRecipient {
            session: self.client.session.as_ref(),
            capabilities: &self.client.capabilities,
            channel: self.question_channel(),
            scope,
            patience: COMES_BACK,
        };
        self.deps.tasks.offer_questions(task, to).await
    }

    /// Asks the client all of these and waits for every answer.
    pub(crate) async fn ask_client(&self, asked: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        let client = ClientCapabilities::of(&self.client.capabilities);
        let mut keys = HashSet::new();
        let mut questions = Vec::with_capacity(asked.len());
        let mut asks_by_text = false;
        for AskedQuestion { key, method, params, check } in asked {
            let is_visible =
                !key.is_empty() && key.len() <= MAX_KEY_BYTES && key.bytes().all(|b| b.is_ascii_graphic());
            if !is_visible || key.starts_with(KEYS) {
                return Err(AskError::Invalid(format!(
                    "a key is 1 to {MAX_KEY_BYTES} visible ASCII characters and does not begin with `{KEYS}`"
                )));
            }
            if !keys.insert(key.clone()) {
                return Err(AskError::Invalid(format!("the key `{key}` stands for two questions")));
            }
            let elicitation_id = self.deps.ids.uuid().to_string();
            let question = question::check(&method, &params, &elicitation_id)
                .map_err(|what| AskError::Invalid(format!("the question `{key}`: {what}")))?;
            if let Err(unsupported) = question.check_client(&client) {
                // For a client that knows no tasks, the text of a result shows the question.
                if client.form || !self.is_answered_by_tool(question.kind) {
                    return Err(AskError::Unsupported(unsupported));
                }
                asks_by_text = true;
            }
            questions.push(PendingQuestion { key, question, check });
        }
        self.questions.history().add(&questions, self.work.bounds().questions as usize)?;
        if asks_by_text && self.task().is_none() {
            let why = |why: NotPromoted| AskError::Refused(RpcError::internal(why.to_string()));
            self.become_task(PromotionCause::Question).await.map_err(why)?;
        }
        let answers = self.ask_all(questions).await?;
        self.questions.history().note(&answers);
        Ok(answers)
    }

    /// Whether the user answers a question of this kind by a host tool.
    pub(super) fn is_answered_by_tool(&self, kind: Kind) -> bool {
        self.is_bridged() && self.deps.tasks.is_answered_by_tool(kind)
    }

    /// Asks checked questions, under keys that are theirs alone, and waits for every answer.
    pub(super) async fn ask_all(
        &self,
        questions: Vec<PendingQuestion>,
    ) -> Result<Vec<GivenAnswer>, AskError> {
        for PendingQuestion { key, question, .. } in &questions {
            self.voice.emit(self.view(), RunEvent::Asked { key, question });
        }
        let answers = match (self.task(), &self.questions.round_trip) {
            (Some(_), _) => in_task::ask(self, questions).await?,
            (None, Some(_)) => in_rounds::ask(self, questions).await?,
            (None, None) => plain::ask(self, questions).await?,
        };
        for answer in &answers {
            self.voice.emit(self.view(), RunEvent::Answered(answer));
        }
        Ok(answers)
    }
}
