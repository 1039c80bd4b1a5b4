//! The MCP methods of both generations, each a call to the dispatcher: `tools/call` in [`answer`], the
//! methods of tasks in `methods/tasks.rs`, all others in [`Handler::outcome`]. Only two never reach this
//! module, because they concern a connection: `initialize`, and `subscriptions/listen`
//! (`stateless/listen.rs`).

mod tasks;

pub(crate) use tasks::snapshot;

use crate::answer::{Answer, Output};
use crate::failure::Failure;
use crate::request::{Origin, Request};
use crate::session::ClientSession;
use std::sync::Arc;
use toolyard_dispatch::{
    CallReply, ClientChannel, CreatedTask, Fault, FetchReply, HandOff, InputRequired, ListFor,
    NoClientChannel, ProviderRequest, RETRY_AFTER_MS, Stop, TaskQuestions, Terms, ToolCall,
};
use toolyard_protocol::completion::CompleteParams;
use toolyard_protocol::method::Generation;
use toolyard_protocol::progress::progress_token;
use toolyard_protocol::prompts::GetParams;
use toolyard_protocol::stateless::discover::discover;
use toolyard_protocol::stateless::input::{Retry, input_requests, input_required};
use toolyard_protocol::stateless::result::{Cache, complete, complete_cached};
use toolyard_protocol::stateless::task::created;
use toolyard_protocol::tasks::create_result;
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{LogLevel, Method, RawJson, RpcError, page, resources};

/// The answer to an admitted request; `None` if its sender cancelled it, which sets `stop`. Notifications
/// leave through `channel` while the request runs.
pub(crate) async fn answer(
    mut request: Box<Request>,
    channel: Arc<dyn ClientChannel>,
    stop: Arc<Stop>,
) -> Option<Answer> {
    let call = request.call.take();
    let handler = Handler { request, channel, stop };
    let outcome = match call {
        Some(Ok((params, retry))) => handler.call_tool(params, retry).await,
        Some(Err(error)) => Err(error.into()),
        // In a box, so that the state of a call does not include the state of other methods.
        None => Box::pin(handler.outcome()).await,
    };
    handler.request.answer(outcome, &handler.stop)
}

/// The request that is being answered, its channel, and its stop.
struct Handler {
    request: Box<Request>,
    channel: Arc<dyn ClientChannel>,
    stop: Arc<Stop>,
}

impl Handler {
    async fn outcome(&self) -> Result<Output, Failure> {
        let Request { server, caller, method, params, .. } = &*self.request;
        let (dispatch, params) = (&server.dispatch, params.as_ref());
        let cursor = || page::cursor(params);
        Ok(match method {
            Method::Ping => RawJson::empty_object().into(),
            Method::ServerDiscover => self.listed(discover(&server.identity, dispatch.catalog().offers())),
            Method::LoggingSetLevel => {
                self.client()?.set_level(dispatch, LogLevel::decode(params)?).await?;
                RawJson::empty_object().into()
            }
            Method::ToolsList => {
                let cursor = cursor()?;
                let result =
                    dispatch.catalog().list_tools(caller, self.list_for(), cursor.as_deref()).await?;
                // Clients without tasks see other tools than clients with tasks.
                let is_same_for_all = dispatch.settings().bridge.is_none();
                self.listed_for(result, is_same_for_all)
            }
            Method::ResourcesList => {
                let (request, cursor) = (self.fetch(Retry::default())?, cursor()?);
                self.listed(dispatch.list_resources(request, cursor.as_deref()).await?)
            }
            Method::ResourcesTemplatesList => {
                let (request, cursor) = (self.fetch(Retry::default())?, cursor()?);
                self.listed(dispatch.list_templates(request, cursor.as_deref()).await?)
            }
            Method::ResourcesRead => {
                let (request, uri) = (self.fetch(self.retry()?)?, resources::uri(method, params)?);
                // A plugin does not tell how long a resource stays unchanged.
                let cache = Cache { ttl_ms: 0, public: false };
                self.fetched(dispatch.read_resource(request, &uri).await?, Some(&cache))?
            }
            Method::ResourcesSubscribe => self.subscribe(true).await?,
            Method::ResourcesUnsubscribe => self.subscribe(false).await?,
            Method::PromptsList => self.listed(dispatch.list_prompts(caller, cursor()?.as_deref()).await?),
            Method::PromptsGet => {
                let (request, wanted) = (self.fetch(self.retry()?)?, GetParams::decode(params)?);
                self.fetched(dispatch.get_prompt(request, wanted).await?, None)?
            }
            Method::CompletionComplete => {
                let (request, wanted) = (self.fetch(Retry::default())?, CompleteParams::decode(params)?);
                self.complete(dispatch.complete(request, wanted).await?, None)
            }
            Method::TasksGet
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksUpdate
            | Method::TasksCancel => self.task_method().await?,
            other => return Err(RpcError::method_not_found(other).into()),
        })
    }

    async fn call_tool(&self, mut params: CallParams, retry: Retry) -> Result<Output, Failure> {
        let Request { server, caller, origin, trace, .. } = &*self.request;
        params.trace = params.trace.or_else(|| trace.clone());
        let (terms, task_channel): (_, Arc<dyn ClientChannel>) = match origin {
            Origin::Session(client) => {
                let has_tasks = client.revision.has_tasks();
                if params.task.is_some() && has_tasks {
                    client.mark_task_aware(&server.dispatch).await?;
                }
                (Terms::Sessions { has_tasks, bridge: client.bridge() }, client.task_channel.clone())
            }
            // A task sends no notifications by itself: a client that wants them subscribes.
            Origin::Envelope(envelope) => {
                let bridge = self.request.bridge();
                (Terms::Stateless { tasks: envelope.tasks, bridge, retry }, Arc::new(NoClientChannel))
            }
        };
        let (stop, channel) = (self.stop.clone(), self.channel.clone());
        let rate_key = self.request.key.clone();
        let call = ToolCall { params, terms, stop, channel, task_channel, rate_key };
        match server.dispatch.call(caller, call).await? {
            CallReply::Result(result) => Ok(self.complete(result, None)),
            CallReply::Error(error) => Err(Failure::Answered(error)),
            CallReply::InputRequired(wanted) => self.input_required(&wanted),
            CallReply::TaskAsks(TaskQuestions { input, handover }) => {
                Ok(Output { handover: Some(handover), ..self.input_required(&input)? })
            }
            CallReply::UnknownTask(result) => {
                self.request.count_failed_lookup();
                Ok(self.complete(result, None))
            }
            CallReply::HandedOff(HandOff { outcome: Ok(result), handover }) => {
                Ok(Output { handover: Some(handover), ..self.complete(result, None) })
            }
            CallReply::HandedOff(HandOff { outcome: Err(error), handover }) => {
                Err(Failure::EndOfTask(Box::new((error, handover))))
            }
            CallReply::Created(CreatedTask { view, immediate_response, handover }) => Ok(match origin {
                Origin::Session(_) => create_result(&view.render(), immediate_response.as_deref()).into(),
                Origin::Envelope(_) => {
                    let result = created(&view, immediate_response.as_deref(), server.server_info());
                    Output { result, handover }
                }
            }),
        }
    }

    async fn subscribe(&self, wanted: bool) -> Result<Output, Failure> {
        let Request { server, caller, method, params, .. } = &*self.request;
        let (dispatch, most) = (&server.dispatch, server.settings.subscriptions);
        let uri = resources::uri(method, params.as_ref())?;
        if wanted {
            dispatch.check_subscribe(caller, &uri)?;
        }
        if self.client()?.subscribe(dispatch, uri, wanted, most).await? {
            return Ok(RawJson::empty_object().into());
        }
        Err(Failure::Fault(Fault::Busy {
            what: format!(
                "this session is at its limit of resource subscriptions: {most}, with 256 KiB of URIs"
            ),
            limit: "wire.subscriptions",
            retry_after_ms: RETRY_AFTER_MS,
        }))
    }

    fn list_for(&self) -> ListFor {
        match &self.request.origin {
            Origin::Session(client) => ListFor::Sessions(client.revision, client.bridge()),
            Origin::Envelope(_) => ListFor::Stateless(self.request.bridge()),
        }
    }

    /// The session, for methods that only sessions have.
    fn client(&self) -> Result<&ClientSession, RpcError> {
        match &self.request.origin {
            Origin::Session(client) => Ok(client),
            Origin::Envelope(_) => Err(RpcError::method_not_found(&self.request.method)),
        }
    }

    /// The answers and the state that a stateless request returns (26M-4).
    fn retry(&self) -> Result<Retry, RpcError> {
        match self.request.generation() {
            Generation::Sessions => Ok(Retry::default()),
            Generation::Stateless => Retry::decode(&self.request.method, self.request.params.as_ref()),
        }
    }

    fn fetch(&self, retry: Retry) -> Result<ProviderRequest<'_>, RpcError> {
        Ok(ProviderRequest {
            caller: &self.request.caller,
            stop: self.stop.clone(),
            channel: self.channel.clone(),
            progress_token: self.request.params.as_ref().map(progress_token).transpose()?.flatten(),
            retry: (self.request.generation() == Generation::Stateless).then_some(retry),
        })
    }

    fn fetched(&self, fetched: FetchReply, cache: Option<&Cache>) -> Result<Output, Failure> {
        match fetched {
            FetchReply::Done(result) => Ok(self.complete(result, cache)),
            FetchReply::InputRequired(wanted) => self.input_required(&wanted),
        }
    }

    /// A result that a client may cache for a while. A shared cache may do so too if all clients see the same
    /// (26C-5).
    fn listed(&self, result: RawJson) -> Output {
        self.listed_for(result, true)
    }

    /// The same; `is_same_for_all` says whether all clients with the same kind of access see the same result.
    fn listed_for(&self, result: RawJson, is_same_for_all: bool) -> Output {
        let server = &self.request.server;
        let ttl_ms = u64::try_from(server.settings.cache.as_millis()).unwrap_or(u64::MAX);
        let public = is_same_for_all && !server.access.current().auth.is_required();
        self.complete(result, Some(&Cache { ttl_ms, public }))
    }

    /// A result in the form of its generation; only 2026-07-28 states how long it may be cached.
    fn complete(&self, result: RawJson, cache: Option<&Cache>) -> Output {
        let server = self.request.server.server_info();
        match (&self.request.origin, cache) {
            (Origin::Session(_), _) => result,
            (Origin::Envelope(_), Some(cache)) => complete_cached(&result, server, cache),
            (Origin::Envelope(_), None) => complete(&result, server),
        }
        .into()
    }

    /// The questions that the client must answer before the request has a result (26M-2).
    fn input_required(&self, wanted: &InputRequired) -> Result<Output, Failure> {
        if self.request.generation() == Generation::Sessions {
            // In sessions, the host asks a client with requests, never in an answer.
            return Err(RpcError::internal("A client with a session was to be asked as one without").into());
        }
        let questions = wanted.questions.iter();
        let requests =
            input_requests(questions.map(|(key, asked)| (key.as_str(), asked.kind, &asked.params)));
        Ok(input_required(&requests, Some(&wanted.state), self.request.server.server_info()).into())
    }
}
