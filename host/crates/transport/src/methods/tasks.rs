//! The methods of tasks (T-23 to T-36, 26T-14 to 26T-22), and a task as its clients
//! see it.

use super::Handler;
use crate::answer::Output;
use crate::failure::Failure;
use crate::request::{Origin, Request};
use serde_json::{Map, Value, json};
use toolyard_dispatch::{Era, Fault, Outcome, Task, TaskStatus};
use toolyard_protocol::question::{CheckedQuestion, Kind};
use toolyard_protocol::stateless::envelope::Envelope;
use toolyard_protocol::stateless::error::{missing_capability, tasks_required};
use toolyard_protocol::stateless::input::{input_requests, update_params};
use toolyard_protocol::stateless::result::inner_complete;
use toolyard_protocol::stateless::task::{Payload, detailed};
use toolyard_protocol::tasks::task_id;
use toolyard_protocol::{ClientCapabilities, Method, RawJson, RpcError, Timestamp};

impl Handler {
    pub(super) async fn task_method(&self) -> Result<Output, Failure> {
        if let Origin::Session(client) = &self.request.origin {
            client.mark_task_aware(&self.request.server.dispatch).await?;
        }
        let done = self.task_outcome().await;
        if let Err(Failure::Fault(Fault::UnknownTask | Fault::InvalidCursor)) = &done {
            self.request.count_failed_lookup();
        }
        done
    }

    async fn task_outcome(&self) -> Result<Output, Failure> {
        let Request { server, caller, method, params, origin, .. } = &*self.request;
        let (dispatch, params) = (&server.dispatch, params.as_ref());
        let tasks = dispatch.tasks().await?;
        Ok(match (method, origin) {
            (Method::TasksGet, Origin::Session(client)) => {
                let task = tasks.task(caller, &task_id(params)?).await?;
                // Some clients only poll, and do not ask for the result at `input_required`.
                dispatch.offer_questions(caller, &task, &client.task_channel).await?;
                task.view().advised_at(dispatch.now()).render().into()
            }
            // 26T-14. Never waits.
            (Method::TasksGet, Origin::Envelope(envelope)) => {
                let client = ClientCapabilities::of(&envelope.capabilities);
                self.complete(snapshot(&self.task(envelope).await?, &client, dispatch.now())?, None)
            }
            (Method::TasksResult, _) => {
                let outcome = tasks.task_result(caller, &task_id(params)?, self.channel.clone()).await?;
                outcome.map_err(Failure::Answered)?.into()
            }
            (Method::TasksList, _) => tasks.list_tasks(caller, params).await?.into(),
            // 26T-17: an acknowledgement, whatever happens to the answers.
            (Method::TasksUpdate, _) => {
                let (id, responses) = update_params(params)?;
                tasks.update_task(caller, &id, responses).await?;
                acknowledged()
            }
            (Method::TasksCancel, Origin::Session(_)) => {
                tasks.cancel_task(caller, &task_id(params)?).await?.view().render().into()
            }
            // 26T-20: an acknowledgement, also for a task that has ended.
            (Method::TasksCancel, Origin::Envelope(envelope)) => {
                let id = match envelope.tasks {
                    true => task_id(params)?,
                    false => self.task(envelope).await?.id.to_string(),
                };
                match tasks.cancel_task(caller, &id).await {
                    Ok(_) | Err(Fault::AlreadyOver(_)) => acknowledged(),
                    Err(fault) => return Err(fault.into()),
                }
            }
            (other, _) => return Err(RpcError::method_not_found(other).into()),
        })
    }

    /// The named task. Without the extension, only tasks of sessions are found. An unknown task then gets the
    /// same answer as one that the client may not use (26T-6).
    async fn task(&self, envelope: &Envelope) -> Result<Task, Failure> {
        let Request { server, caller, params, .. } = &*self.request;
        let id = task_id(params.as_ref())?;
        let found = server.dispatch.tasks().await?.task(caller, &id).await;
        if envelope.tasks {
            return Ok(found?);
        }
        match found {
            Ok(task) if task.era == Era::Sessions => Ok(task),
            Ok(_) => Err(tasks_required().into()),
            Err(Fault::UnknownTask) => {
                // Counted anyway: a client that guesses ids would do this.
                self.request.count_failed_lookup();
                Err(tasks_required().into())
            }
            Err(fault) => Err(fault.into()),
        }
    }
}

/// `{"resultType":"complete"}` and nothing else.
fn acknowledged() -> Output {
    inner_complete(&RawJson::empty_object()).into()
}

/// The current task, with its outcome or all questions that it waits for (26T-14).
///
/// # Errors
/// `-32021` if it waits for a question that this client cannot be asked: a snapshot is always complete
/// (26T-19).
pub(crate) fn snapshot(
    task: &Task,
    client: &ClientCapabilities,
    now: Timestamp,
) -> Result<RawJson, RpcError> {
    let mut view = task.view().advised_at(now);
    Ok(match &task.outcome {
        Some(Outcome::Result { result, .. }) => detailed(&view, &Payload::Result(result)),
        Some(Outcome::Error(error)) => detailed(&view, &Payload::Error(error)),
        Some(Outcome::Cancelled) => detailed(&view, &Payload::None),
        Some(Outcome::Expired) => {
            let message = task.status_message.clone().unwrap_or_else(|| "task expired".to_owned());
            detailed(&view, &Payload::Error(&RpcError::internal(message)))
        }
        None => {
            let open: Vec<_> = task.open_questions().collect();
            if open.is_empty() {
                // A task that waits for the operator asks its client nothing.
                view.status = TaskStatus::Working;
                return Ok(detailed(&view, &Payload::None));
            }
            let questions = open.iter().map(|question| (question.kind, &question.params));
            check_askable(questions, client)?;
            let keys: Vec<_> = open.iter().map(|question| question.wire_key()).collect();
            let asked = keys.iter().zip(&open);
            let requests =
                input_requests(asked.map(|(key, question)| (&**key, question.kind, &question.params)));
            detailed(&view, &Payload::Input(&requests))
        }
    })
}

/// Checks whether this client can be asked all these questions.
fn check_askable<'a>(
    questions: impl Iterator<Item = (Kind, &'a RawJson)>,
    client: &ClientCapabilities,
) -> Result<(), RpcError> {
    let mut required = Map::new();
    for (kind, params) in questions {
        let question = CheckedQuestion { kind, params: params.clone() };
        if question.check_client(client).is_err() {
            require(&mut required, &question, client);
        }
    }
    if required.is_empty() { Ok(()) } else { Err(missing_capability(&Value::Object(required))) }
}

/// Adds the capability that a question needs and the client lacks.
fn require(required: &mut Map<String, Value>, question: &CheckedQuestion, client: &ClientCapabilities) {
    let (of, part) = match question.kind {
        Kind::Form => ("elicitation", Some("form")),
        Kind::Url => ("elicitation", Some("url")),
        Kind::Roots => ("roots", None),
        Kind::Sampling if !client.sampling => ("sampling", None),
        Kind::Sampling => {
            let with_tools = ClientCapabilities { sampling_tools: true, ..*client };
            let tools = !client.sampling_tools && question.check_client(&with_tools).is_ok();
            ("sampling", Some(if tools { "tools" } else { "context" }))
        }
    };
    let entry = required.entry(of).or_insert_with(|| json!({}));
    if let Some(part) = part {
        entry[part] = json!({});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(questions: &[(Kind, &'static str)], client: &'static str) -> Option<Value> {
        let client = ClientCapabilities::of(&RawJson::trusted(client));
        let params: Vec<_> = questions.iter().map(|(_, params)| RawJson::trusted(*params)).collect();
        let error = check_askable(questions.iter().map(|(kind, _)| *kind).zip(&params), &client).err()?;
        assert_eq!(error.code, -32021);
        let data: Value = error.data.expect("data").decode().expect("JSON");
        Some(data["requiredCapabilities"].clone())
    }

    #[test]
    fn t_26t_19_what_a_client_cannot_be_asked_is_named_whole() {
        let all = [(Kind::Form, "{}"), (Kind::Url, "{}"), (Kind::Sampling, "{}"), (Kind::Roots, "{}")];
        let able = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;
        let without_pages = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
        let tools = [(Kind::Sampling, r#"{"tools":[]}"#)];
        let context = [(Kind::Sampling, r#"{"includeContext":"allServers"}"#)];
        let each = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
        for (questions, client, expected) in [
            (&all[..], "{}", Some(each)),
            (&all, able, None),
            (&all, without_pages, Some(json!({"elicitation": {"url": {}}}))),
            (&tools, able, Some(json!({"sampling": {"tools": {}}}))),
            (&context, able, Some(json!({"sampling": {"context": {}}}))),
            (&[], "{}", None),
        ] {
            assert_eq!(required(questions, client), expected, "{questions:?} {client}");
        }
    }
}
