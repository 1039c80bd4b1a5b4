//! `subscriptions/listen`: the notifications that a client asks for, and those that it gets (26SUB).

use super::META_SUBSCRIPTION;
use crate::error::RpcError;
use crate::message::Id;
use crate::method::Method;
use crate::raw::RawJson;
use crate::response::{notification, result, with_member};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::HashSet;

/// The notifications that a client asks for, or those that are granted. Nothing else is sent
/// (26SUB-2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    /// Changes of the list of tools.
    #[serde(rename = "toolsListChanged", skip_serializing_if = "is_false")]
    pub tools: bool,
    /// Changes of the list of prompts.
    #[serde(rename = "promptsListChanged", skip_serializing_if = "is_false")]
    pub prompts: bool,
    /// Changes of the list of resources.
    #[serde(rename = "resourcesListChanged", skip_serializing_if = "is_false")]
    pub resources: bool,
    /// Changes of these resources.
    #[serde(rename = "resourceSubscriptions", skip_serializing_if = "Vec::is_empty")]
    pub uris: Vec<String>,
    /// Changes of these tasks (26T-23).
    #[serde(rename = "taskIds", skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
}

const fn is_false(value: &bool) -> bool {
    !*value
}

impl Filter {
    /// Decodes the `notifications` of the params, each URI and id once. Unknown members are not
    /// granted (26X-11).
    ///
    /// # Errors
    /// `-32602` if it is missing or a member has the wrong type (26SUB-1).
    pub fn decode(params: Option<&RawJson>) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, default, deserialize_with = "crate::raw::present")]
            notifications: Option<&'a RawValue>,
        }
        let wrong = |what: &str| RpcError::invalid_params(format!("subscriptions/listen: {what}"));
        let required = || wrong("`notifications` is required and must be an object");
        let wire: Wire<'_> =
            params.ok_or_else(required)?.decode().map_err(|error| wrong(&error.to_string()))?;
        let wanted = wire.notifications.map(RawValue::get).filter(|text| text.starts_with('{'));
        let mut filter: Self = serde_json::from_str(wanted.ok_or_else(required)?)
            .map_err(|error| wrong(&format!("`notifications`: {error}")))?;
        once(&mut filter.uris);
        once(&mut filter.tasks);
        Ok(filter)
    }

    /// Whether nothing is requested, or nothing was granted (26SUB-6).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The object on the wire, without notifications that are not granted (26SUB-2).
    #[must_use]
    pub fn render(&self) -> RawJson {
        RawJson::of(self)
    }
}

/// Keeps only the first of each.
fn once(names: &mut Vec<String>) {
    let mut seen = HashSet::with_capacity(names.len());
    names.retain(|name| seen.insert(name.clone()));
}

/// The first message of a subscription (26SUB-2).
#[must_use]
pub fn acknowledged(id: &Id, granted: &Filter) -> Bytes {
    tagged_notification(
        id,
        &Method::SubscriptionAcknowledged,
        &RawJson::of(&json!({"notifications": granted})),
    )
}

/// The response that ends it (26SUB-5).
#[must_use]
pub fn ended(id: &Id) -> Bytes {
    result(id, &RawJson::of(&json!({"resultType": "complete", "_meta": {META_SUBSCRIPTION: id}})))
}

/// `notifications/…/list_changed` of tools, prompts or resources.
#[must_use]
pub fn list_changed(id: &Id, method: &Method) -> Bytes {
    tagged_notification(id, method, &RawJson::empty_object())
}

/// `notifications/resources/updated`.
#[must_use]
pub fn resource_updated(id: &Id, uri: &str) -> Bytes {
    tagged_notification(id, &Method::ResourcesUpdated, &RawJson::of(&json!({"uri": uri})))
}

/// `notifications/tasks` with all that `tasks/get` would return (26T-23).
#[must_use]
pub fn task(id: &Id, detailed: &RawJson) -> Bytes {
    tagged_notification(id, &Method::TaskChanged, detailed)
}

/// Every message names its subscription, by the id of the request and in its JSON
/// type (26SUB-3).
fn tagged_notification(id: &Id, method: &Method, params: &RawJson) -> Bytes {
    let meta = format!("{{\"{META_SUBSCRIPTION}\":{}}}", RawJson::of(id).as_str());
    notification(method.as_str(), Some(&with_member(params, "_meta", &meta)))
}

#[cfg(test)]
mod tests;
