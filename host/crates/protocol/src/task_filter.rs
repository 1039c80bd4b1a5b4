//! The filter of `tasks/list` (SEP-1904, F-1 to F-8), as it arrives.
//!
//! Not here: the tasks that a criterion finds. The filter is decoded and validated.

use crate::error::RpcError;
use crate::raw::{RawJson, present};
use crate::tasks::TaskStatus;
use crate::timestamp::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// No list in a filter has more members, so that a filter is cheap to apply.
pub const MAX_MEMBERS: usize = 1000;

/// The method behind every task.
const TOOLS_CALL: &str = "tools/call";

/// The time that tasks are ordered by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OrderBy {
    /// Their creation.
    CreatedAt,
    /// Their last change.
    #[default]
    LastUpdatedAt,
}

/// The direction of the order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The oldest first.
    Asc,
    /// The newest first.
    #[default]
    Desc,
}

/// A filter: criteria for tasks, and their order. An absent criterion holds for every task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// The requests behind the tasks.
    pub methods: Option<Vec<String>>,
    /// Ids, which need not look like ids of this host.
    pub task_ids: Option<Vec<String>>,
    /// Their states.
    pub status: Option<Vec<TaskStatus>>,
    /// The tasks were created later than this.
    pub created_after: Option<Timestamp>,
    /// The tasks were created earlier than this.
    pub created_before: Option<Timestamp>,
    /// The tasks last changed later than this.
    pub last_updated_after: Option<Timestamp>,
    /// The tasks last changed earlier than this.
    pub last_updated_before: Option<Timestamp>,
    /// The time that they are ordered by.
    pub order_by: OrderBy,
    /// The direction of the order.
    pub order: Direction,
}

/// The members of a filter, undecoded; others are ignored.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "present")]
    methods: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    task_ids: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    status: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    created_after: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    created_before: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    last_updated_after: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    last_updated_before: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    order_by: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    order: Option<&'a RawValue>,
}

impl Wire<'_> {
    fn is_empty(&self) -> bool {
        let Self { methods, task_ids, status, order_by, order, .. } = self;
        let times =
            [self.created_after, self.created_before, self.last_updated_after, self.last_updated_before];
        [*methods, *task_ids, *status, *order_by, *order].iter().chain(&times).all(Option::is_none)
    }
}

impl TaskFilter {
    /// The supported criteria, as `initialize` declares them (F-1).
    #[must_use]
    pub(crate) fn capability() -> serde_json::Value {
        serde_json::json!({
            "methods": [TOOLS_CALL],
            "taskIds": true,
            "status": true,
            "createdAt": {"before": true, "after": true},
            "lastUpdatedAt": {"before": true, "after": true},
            "order": {
                "by": [OrderBy::CreatedAt, OrderBy::LastUpdatedAt],
                "direction": [Direction::Asc, Direction::Desc],
            },
        })
    }

    /// The filter in the params of `tasks/list`: the object `filter`, or else the
    /// same members in the params themselves (F-4). `None` if there is neither, in
    /// which case the list is in its usual order (F-8).
    ///
    /// # Errors
    /// `-32602` that names the member that is wrong (F-5).
    pub fn decode(params: Option<&RawJson>) -> Result<Option<Self>, RpcError> {
        #[derive(Deserialize)]
        struct Outer<'a> {
            #[serde(borrow, default, deserialize_with = "present")]
            filter: Option<&'a RawValue>,
        }
        let Some(params) = params else { return Ok(None) };
        let outer: Outer<'_> = params.decode().map_err(|error| refused(&error))?;
        let wire = match outer.filter {
            Some(filter) if !filter.get().starts_with('{') => {
                return Err(RpcError::invalid_params("`filter` must be an object"));
            }
            Some(filter) => serde_json::from_str(filter.get()).map_err(|error| refused(&error))?,
            None => {
                let wire: Wire<'_> = params.decode().map_err(|error| refused(&error))?;
                if wire.is_empty() {
                    return Ok(None);
                }
                wire
            }
        };
        Self::of(&wire).map(Some)
    }

    fn of(wire: &Wire<'_>) -> Result<Self, RpcError> {
        let status =
            strings("status", wire.status)?.map(|names| names.iter().map(|name| status(name)).collect());
        Ok(Self {
            methods: strings("methods", wire.methods)?,
            task_ids: strings("taskIds", wire.task_ids)?,
            status: status.transpose()?,
            created_after: later(wire.created_after, "createdAfter")?,
            created_before: earlier(wire.created_before, "createdBefore")?,
            last_updated_after: later(wire.last_updated_after, "lastUpdatedAfter")?,
            last_updated_before: earlier(wire.last_updated_before, "lastUpdatedBefore")?,
            order_by: one_of("orderBy", wire.order_by, "\"createdAt\" or \"lastUpdatedAt\"")?,
            order: one_of("order", wire.order, "\"asc\" or \"desc\"")?,
        })
    }

    /// Whether it may match tasks of `tools/call`, which all tasks are.
    #[must_use]
    pub fn takes_tool_calls(&self) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.iter().any(|method| method == TOOLS_CALL))
    }
}

/// The error for duplicate members, and for params that are not an object.
fn refused(error: &serde_json::Error) -> RpcError {
    RpcError::invalid_params(format!("tasks/list: {error}"))
}

fn wrong(name: &str, must_be: &str) -> RpcError {
    RpcError::invalid_params(format!("`{name}` must be {must_be}"))
}

fn one_of<'a, T: Default + Deserialize<'a>>(
    name: &str,
    raw: Option<&'a RawValue>,
    must_be: &str,
) -> Result<T, RpcError> {
    raw.map_or(Ok(T::default()), |raw| serde_json::from_str(raw.get()).map_err(|_| wrong(name, must_be)))
}

fn status(name: &str) -> Result<TaskStatus, RpcError> {
    let must_be = "made of \"working\", \"input_required\", \"completed\", \"failed\" and \"cancelled\"";
    TaskStatus::parse(name).ok_or_else(|| wrong("status", must_be))
}

/// Later than a moment that may be between two milliseconds: later than the one
/// before it.
fn later(raw: Option<&RawValue>, name: &str) -> Result<Option<Timestamp>, RpcError> {
    Ok(moment(raw, name)?.map(|(before, _)| before))
}

/// Earlier than a moment: earlier than the millisecond after it.
fn earlier(raw: Option<&RawValue>, name: &str) -> Result<Option<Timestamp>, RpcError> {
    Ok(moment(raw, name)?.map(|(_, after)| after))
}

fn moment(raw: Option<&RawValue>, name: &str) -> Result<Option<(Timestamp, Timestamp)>, RpcError> {
    let Some(raw) = raw else { return Ok(None) };
    let text: Option<Cow<'_, str>> = serde_json::from_str(raw.get()).ok();
    let moment = text.as_deref().and_then(Timestamp::around);
    moment
        .map(Some)
        .ok_or_else(|| wrong(name, "a time in RFC 3339 with its offset, such as \"2025-11-25T10:30:00Z\""))
}

fn strings(name: &str, raw: Option<&RawValue>) -> Result<Option<Vec<String>>, RpcError> {
    let Some(raw) = raw else { return Ok(None) };
    let read = Strings.deserialize(&mut serde_json::Deserializer::from_str(raw.get()));
    read.map(Some).map_err(|_| wrong(name, &format!("a list of at most {MAX_MEMBERS} strings")))
}

/// Reads a list of strings, up to its maximum length.
struct Strings;

impl<'de> DeserializeSeed<'de> for Strings {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Strings {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut strings = Vec::new();
        while let Some(string) = seq.next_element()? {
            if strings.len() == MAX_MEMBERS {
                return Err(serde::de::Error::custom("too long"));
            }
            strings.push(string);
        }
        Ok(strings)
    }
}

#[cfg(test)]
mod tests;
