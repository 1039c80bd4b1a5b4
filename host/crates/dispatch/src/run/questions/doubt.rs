//! Asks a person about a request that was under way when its host stopped (`in-doubt = "ask"`). The answer counts for
//! this request alone.

use crate::run::questions::choice_form::{choice_form, chosen};
use crate::run::questions::pending::{DOUBTS, PendingQuestion};
use crate::run::run::Run;
use toolyard_protocol::question::CheckedQuestion;
use toolyard_protocol::{ClientCapabilities, RawJson};
use toolyard_task::journal::DoubtDecision;

/// The most characters of the request that are shown.
const MAX_REQUEST_CHARS: usize = 500;

const CHOICES: [(DoubtDecision, &str); 3] = [
    (DoubtDecision::Resend, "Send it again"),
    (DoubtDecision::Error, "Do not send it again; tell the tool that the connection broke"),
    (DoubtDecision::Fail, "End the task"),
];

impl Run {
    /// The decision of the person, and their name; `None` if the client cannot ask, or gives no answer. `doubt`
    /// names this doubt among all of the task.
    pub(crate) async fn doubt_decision(&self, doubt: &str, request: &str) -> Option<(DoubtDecision, String)> {
        let question = question(self, request);
        if let Err(lacks) = question.check_client(&ClientCapabilities::of(&self.client.capabilities)) {
            tracing::debug!(run = self.work.name(), lacks, "the client cannot ask about a request in doubt");
            return None;
        }
        // The same in each run, so that an answer is not asked for twice.
        let key = format!("{DOUBTS}{doubt}");
        let answers = self.ask_all(vec![PendingQuestion { key, question, check: None }]).await.ok()?;
        let decision = read(answers.first()?.outcome.as_ref().ok()?)?;
        let name =
            self.client.owner.as_ref().map_or_else(|| "anyone".to_owned(), |owner| self.client.name(owner));
        Some((decision, name))
    }
}

fn question(of: &Run, request: &str) -> CheckedQuestion {
    let (plugin, _) = of.work.component();
    let tool = of.work.tool_name().unwrap_or_default();
    // The request comes from a guest: characters that could hide or reverse a part of it are escaped.
    let request: String = request.chars().take(MAX_REQUEST_CHARS).collect();
    let message = format!(
        "The host stopped while the tool {tool:?} of the plugin {plugin:?} sent the request {request:?}. Whether the \
         server carried it out is not known. Which of these shall happen?"
    );
    choice_form(&message, "Decision", CHOICES.map(|(decision, title)| (decision.as_str(), title)))
}

/// The decision in an `ElicitResult`; `None` for a declined or cancelled form.
fn read(answer: &RawJson) -> Option<DoubtDecision> {
    let said = chosen(answer)?;
    CHOICES.into_iter().map(|(decision, _)| decision).find(|decision| decision.as_str() == said)
}
