//! The methods of resources, prompts and completion (R-1 to R-6, PR-1 to PR-4, CO-1
//! to CO-3). They exist where a plugin offers such things, now or when the client
//! initialized.

use super::{Asked, Failure, only_stateless};
use toolyard_dispatch::{Fault, Fetched, Offers, Request};
use toolyard_protocol::completion::CompleteParams;
use toolyard_protocol::method::Generation;
use toolyard_protocol::progress::progress_token;
use toolyard_protocol::prompts::GetParams;
use toolyard_protocol::{Method, RawJson, RpcError, page, resources};

fn fetched(fetched: Fetched) -> Result<RawJson, Failure> {
    match fetched {
        Fetched::Done(result) => Ok(result),
        Fetched::InputRequired(_) => Err(Failure::Rpc(only_stateless())),
    }
}

impl Asked {
    /// Answers one of these methods.
    pub async fn offered(&self, method: &Method, params: Option<&RawJson>) -> Result<RawJson, Failure> {
        let (declared, now) = (self.conversation.declared, self.server.dispatch.offers());
        let either = || Offers {
            resources: declared.resources || now.resources,
            prompts: declared.prompts || now.prompts,
            completions: declared.completions || now.completions,
        };
        if !method.is_offered(Generation::Sessions, false, either) {
            return Err(RpcError::method_not_found(method).into());
        }
        let dispatch = &self.server.dispatch;
        Ok(match method {
            Method::ResourcesList => {
                dispatch.list_resources(self.request(params)?, page::cursor(params)?.as_deref()).await?
            }
            Method::ResourcesTemplatesList => {
                dispatch.list_templates(self.request(params)?, page::cursor(params)?.as_deref()).await?
            }
            Method::ResourcesRead => fetched(
                dispatch.read_resource(self.request(params)?, &resources::uri(method, params)?).await?,
            )?,
            Method::ResourcesSubscribe => self.subscribe(resources::uri(method, params)?, true).await?,
            Method::ResourcesUnsubscribe => self.subscribe(resources::uri(method, params)?, false).await?,
            Method::PromptsList => {
                dispatch.list_prompts(&self.caller, page::cursor(params)?.as_deref()).await?
            }
            Method::PromptsGet => {
                fetched(dispatch.get_prompt(self.request(params)?, GetParams::decode(params)?).await?)?
            }
            Method::CompletionComplete => {
                dispatch.complete(self.request(params)?, CompleteParams::decode(params)?).await?
            }
            other => return Err(RpcError::method_not_found(other).into()),
        })
    }

    fn request(&self, params: Option<&RawJson>) -> Result<Request<'_>, RpcError> {
        Ok(Request {
            caller: &self.caller,
            stop: self.stop.clone(),
            outlet: self.outlet.clone(),
            retry: None,
            progress_token: params.map(progress_token).transpose()?.flatten(),
        })
    }

    async fn subscribe(&self, uri: String, wanted: bool) -> Result<RawJson, Failure> {
        let most = self.server.settings.subscriptions;
        let dispatch = &self.server.dispatch;
        if wanted {
            dispatch.may_subscribe(&self.caller, &uri)?;
        }
        if self.conversation.subscribe(dispatch, uri, wanted, most).await? {
            return Ok(RawJson::empty_object());
        }
        Err(Failure::from(Fault::Busy {
            what: format!(
                "this session is subscribed to as many resources as it may be: {most}, with 256 KiB of URIs"
            ),
            limit: "wire.subscriptions",
            retry_after_ms: dispatch.settings().retry_after_ms,
        }))
    }
}
