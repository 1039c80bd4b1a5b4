//! The methods, each a call of the dispatcher. Those of tasks are in `tasks.rs`;
//! `subscriptions/listen` is in `listen.rs`.

use super::Request;
use super::answer::{Answer, Given};
use crate::methods::{self, Failure};
use std::sync::Arc;
use toolyard_dispatch::{
    CallReply, Created, Fault, Fetched, InputRequired, ListFor, NoOutlet, Operation, Outlet,
    Request as FetchRequest, Stop, Terms, ToolCall,
};
use toolyard_protocol::completion::CompleteParams;
use toolyard_protocol::progress::progress_token;
use toolyard_protocol::prompts::GetParams;
use toolyard_protocol::stateless::discover::discover;
use toolyard_protocol::stateless::input::{Retry, input_requests, input_required};
use toolyard_protocol::stateless::result::{Cache, complete, complete_cached};
use toolyard_protocol::stateless::task::created;
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{Method, RawJson, RpcError, page, resources};

/// What a method counts as; a request of any kind was counted before it was read.
/// What a call becomes is not the client's to say, so it is a call.
fn operation(method: &Method) -> Option<Operation> {
    if *method == Method::ToolsCall { Some(Operation::Call) } else { methods::operation(method) }
}

/// The answer to a request that was admitted; none if its sender takes no answer any
/// more, which `stop` says. Notices leave by `outlet` while it is under way.
pub(crate) async fn answer(
    mut request: Box<Request>,
    outlet: Arc<dyn Outlet>,
    stop: Arc<Stop>,
) -> Option<Answer> {
    let call = request.call.take();
    let asked = Asked { request, outlet, stop };
    let outcome = asked.outcome(call).await;
    asked.request.answered(outcome, &asked.stop)
}

/// A request, and all that its method needs.
pub(super) struct Asked {
    pub request: Box<Request>,
    pub outlet: Arc<dyn Outlet>,
    pub stop: Arc<Stop>,
}

impl Asked {
    async fn outcome(&self, call: Option<Result<(CallParams, Retry), RpcError>>) -> Result<Given, Failure> {
        let Request { server, caller, key, method, params, .. } = &*self.request;
        let dispatch = &server.dispatch;
        if let Some(operation) = operation(method) {
            dispatch.pace(key, operation)?;
        }
        if let Some(call) = call {
            return self.call(call?).await;
        }
        let params = params.as_ref();
        let cursor = || page::cursor(params);
        Ok(match method {
            Method::ServerDiscover => self.listed(&discover(&server.identity, dispatch.offers())),
            Method::ToolsList => {
                let cursor = cursor()?;
                let listed = dispatch.list_tools(caller, ListFor::Stateless, cursor.as_deref());
                self.listed(&Box::pin(listed).await?)
            }
            Method::ResourcesList => {
                let cursor = cursor()?;
                let listed = dispatch.list_resources(self.fetch(None)?, cursor.as_deref());
                self.listed(&Box::pin(listed).await?)
            }
            Method::ResourcesTemplatesList => {
                let cursor = cursor()?;
                let listed = dispatch.list_templates(self.fetch(None)?, cursor.as_deref());
                self.listed(&Box::pin(listed).await?)
            }
            Method::PromptsList => {
                let cursor = cursor()?;
                self.listed(&Box::pin(dispatch.list_prompts(caller, cursor.as_deref())).await?)
            }
            Method::ResourcesRead => return Box::pin(self.read()).await,
            Method::PromptsGet => return Box::pin(self.prompt()).await,
            Method::CompletionComplete => {
                let completion =
                    Box::pin(dispatch.complete(self.fetch(None)?, CompleteParams::decode(params)?)).await?;
                complete(&completion, server.presented()).into()
            }
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
                return Box::pin(self.task_method()).await;
            }
            other => return Err(RpcError::method_not_found(other).into()),
        })
    }

    /// A result that may be kept for a while; by others as well, where nobody is told
    /// from anybody (26C-5).
    fn listed(&self, result: &RawJson) -> Given {
        let server = &self.request.server;
        let ttl_ms = u64::try_from(server.settings.cache.as_millis()).unwrap_or(u64::MAX);
        let cache = Cache { ttl_ms, public: !server.auth.is_required() };
        complete_cached(result, server.presented(), &cache).into()
    }

    fn fetch(&self, retry: Option<Retry>) -> Result<FetchRequest<'_>, RpcError> {
        Ok(FetchRequest {
            caller: &self.request.caller,
            stop: self.stop.clone(),
            outlet: self.outlet.clone(),
            progress_token: self.request.params.as_ref().map(progress_token).transpose()?.flatten(),
            // Only what asks can be tried again; a list never asks (26M-1).
            retry: Some(retry.unwrap_or_default()),
        })
    }

    async fn call(&self, (mut params, retry): (CallParams, Retry)) -> Result<Given, Failure> {
        let Request { server, caller, envelope, trace, .. } = &*self.request;
        params.trace = params.trace.or_else(|| trace.clone());
        let call = ToolCall {
            params,
            terms: Terms::Stateless { tasks: envelope.tasks, retry },
            stop: self.stop.clone(),
            outlet: self.outlet.clone(),
            // A task tells nothing of its own accord: who wants to hear of it listens.
            task_outlet: Arc::new(NoOutlet),
        };
        match server.dispatch.call(caller, call).await? {
            CallReply::Result(result) => Ok(complete(&result, server.presented()).into()),
            CallReply::Error(error) => Err(Failure::Answered(error)),
            CallReply::InputRequired(wanted) => Ok(self.wanted(&wanted)),
            CallReply::Created(Created { view, immediate_response, handover }) => Ok(Given {
                result: created(&view, immediate_response.as_deref(), server.presented()),
                handover,
            }),
        }
    }

    async fn read(&self) -> Result<Given, Failure> {
        let Request { server, method, params, .. } = &*self.request;
        let retry = Retry::decode(method, params.as_ref())?;
        let uri = resources::uri(method, params.as_ref())?;
        Ok(match server.dispatch.read_resource(self.fetch(Some(retry))?, &uri).await? {
            // What it says now says nothing of what it will say next.
            Fetched::Done(result) => {
                complete_cached(&result, server.presented(), &Cache { ttl_ms: 0, public: false }).into()
            }
            Fetched::InputRequired(wanted) => self.wanted(&wanted),
        })
    }

    async fn prompt(&self) -> Result<Given, Failure> {
        let Request { server, method, params, .. } = &*self.request;
        let retry = Retry::decode(method, params.as_ref())?;
        let wanted = GetParams::decode(params.as_ref())?;
        Ok(match server.dispatch.get_prompt(self.fetch(Some(retry))?, wanted).await? {
            Fetched::Done(result) => complete(&result, server.presented()).into(),
            Fetched::InputRequired(wanted) => self.wanted(&wanted),
        })
    }

    /// The questions that stand between the request and its result (26M-2).
    fn wanted(&self, wanted: &InputRequired) -> Given {
        let questions = wanted.questions.iter();
        let requests =
            input_requests(questions.map(|(key, asked)| (key.as_str(), asked.kind, &asked.params)));
        input_required(&requests, Some(&wanted.state), self.request.server.presented()).into()
    }

    /// Counts a look-up that found nothing. The one that is too many is answered like
    /// those before it; it is the next that is refused.
    pub fn note_lookup<T>(&self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(Failure::Fault(Fault::UnknownTask)) = &done {
            drop(self.request.server.dispatch.pace(&self.request.key, Operation::FailedLookup));
        }
        done
    }
}
