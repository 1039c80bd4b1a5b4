//! The methods of MCP that the host knows, and the rules of the protocol for each, in one table.
//!
//! A new method is one row of the table here and one arm of the `match` in
//! `transport/src/methods.rs`.

use crate::offers::Offers;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// The two generations of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// 2025-11-25 and before: a request belongs to a session.
    Sessions,
    /// 2026-07-28: every request stands alone.
    Stateless,
}

/// Whether a message of a method is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// The receiver answers the message.
    Request,
    /// The receiver does not answer the message.
    Notification,
}

/// A capability that a method belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Of the server; always offered.
    Tools,
    /// Of the server; always offered.
    Logging,
    /// Of the server, if a plugin has resources.
    Resources,
    /// Of the server, if a plugin has prompts.
    Prompts,
    /// Of the server, if a plugin completes arguments.
    Completions,
    /// Of the server, unless tasks are switched off.
    Tasks,
    /// Of the client.
    Elicitation,
    /// Of the client.
    Sampling,
    /// Of the client.
    Roots,
}

/// The member of the params that the header `Mcp-Name` repeats (26H-3, 26T-26).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameMember {
    /// `name`.
    Name,
    /// `uri`.
    Uri,
    /// `taskId`.
    TaskId,
}

impl NameMember {
    /// The name of the member.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Uri => "uri",
            Self::TaskId => "taskId",
        }
    }
}

/// A row of the table, without the name.
#[derive(Clone, Copy)]
struct Row {
    kind: MessageKind,
    generations: &'static [Generation],
    capability: Option<Capability>,
    name_member: Option<NameMember>,
}

const SESSIONS: &[Generation] = &[Generation::Sessions];
const STATELESS: &[Generation] = &[Generation::Stateless];
const BOTH: &[Generation] = &[Generation::Sessions, Generation::Stateless];

macro_rules! methods {
    ($($method:ident $name:literal $kind:ident $generations:ident $capability:expr, $name_member:expr;)*) => {
        /// A method, read once from its name.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`.")] $method,)*
            /// A name that is not in the table, kept for the error.
            Unknown(Box<str>),
        }

        impl Method {
            /// All methods of the table, in its order.
            pub const ALL: &[Self] = &[$(Self::$method),*];

            /// The name on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$method => $name,)*
                    Self::Unknown(name) => name,
                }
            }

            /// The place in [`Self::ALL`]; its length for an unknown method.
            #[must_use]
            pub const fn index(&self) -> usize {
                enum Index { $($method,)* Unknown }
                (match self {
                    $(Self::$method => Index::$method,)*
                    Self::Unknown(_) => Index::Unknown,
                }) as usize
            }

            fn row(&self) -> Option<Row> {
                use {Capability::*, MessageKind::*, NameMember::*};
                Some(match self {
                    $(Self::$method => Row {
                        kind: $kind,
                        generations: $generations,
                        capability: $capability,
                        name_member: $name_member,
                    },)*
                    Self::Unknown(_) => return None,
                })
            }
        }

        impl From<&str> for Method {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$method,)*
                    _ => Self::Unknown(name.into()),
                }
            }
        }
    };
}

methods! {
    // Method                 name                                      kind         part of   capability          `Mcp-Name`
    ToolsCall                "tools/call"                               Request      BOTH      Some(Tools),        Some(Name);
    ToolsList                "tools/list"                               Request      BOTH      Some(Tools),        None;
    ResourcesList            "resources/list"                           Request      BOTH      Some(Resources),    None;
    ResourcesTemplatesList   "resources/templates/list"                 Request      BOTH      Some(Resources),    None;
    ResourcesRead            "resources/read"                           Request      BOTH      Some(Resources),    Some(Uri);
    ResourcesSubscribe       "resources/subscribe"                      Request      SESSIONS  Some(Resources),    None;
    ResourcesUnsubscribe     "resources/unsubscribe"                    Request      SESSIONS  Some(Resources),    None;
    PromptsList              "prompts/list"                             Request      BOTH      Some(Prompts),      None;
    PromptsGet               "prompts/get"                              Request      BOTH      Some(Prompts),      Some(Name);
    CompletionComplete       "completion/complete"                      Request      BOTH      Some(Completions),  None;
    TasksGet                 "tasks/get"                                Request      BOTH      Some(Tasks),        Some(TaskId);
    TasksResult              "tasks/result"                             Request      SESSIONS  Some(Tasks),        None;
    TasksList                "tasks/list"                               Request      SESSIONS  Some(Tasks),        None;
    TasksUpdate              "tasks/update"                             Request      STATELESS Some(Tasks),        Some(TaskId);
    TasksCancel              "tasks/cancel"                             Request      BOTH      Some(Tasks),        Some(TaskId);
    LoggingSetLevel          "logging/setLevel"                         Request      SESSIONS  Some(Logging),      None;
    Initialize               "initialize"                               Request      SESSIONS  None,               None;
    Ping                     "ping"                                     Request      SESSIONS  None,               None;
    ServerDiscover           "server/discover"                          Request      STATELESS None,               None;
    SubscriptionsListen      "subscriptions/listen"                     Request      STATELESS None,               None;
    // Of the host to a client.
    ElicitationCreate        "elicitation/create"                       Request      BOTH      Some(Elicitation),  None;
    SamplingCreateMessage    "sampling/createMessage"                   Request      BOTH      Some(Sampling),     None;
    RootsList                "roots/list"                               Request      BOTH      Some(Roots),        None;
    // Of a client, or of both sides.
    Initialized              "notifications/initialized"                Notification SESSIONS  None,               None;
    Cancelled                "notifications/cancelled"                  Notification BOTH      None,               None;
    Progress                 "notifications/progress"                   Notification BOTH      None,               None;
    // Of the host.
    LogMessage               "notifications/message"                    Notification BOTH      Some(Logging),      None;
    ToolsListChanged         "notifications/tools/list_changed"         Notification BOTH      Some(Tools),        None;
    PromptsListChanged       "notifications/prompts/list_changed"       Notification BOTH      Some(Prompts),      None;
    ResourcesListChanged     "notifications/resources/list_changed"     Notification BOTH      Some(Resources),    None;
    ResourcesUpdated         "notifications/resources/updated"          Notification BOTH      Some(Resources),    None;
    TasksStatus              "notifications/tasks/status"               Notification SESSIONS  Some(Tasks),        None;
    TaskChanged              "notifications/tasks"                      Notification STATELESS Some(Tasks),        None;
    ElicitationComplete      "notifications/elicitation/complete"       Notification SESSIONS  Some(Elicitation),  None;
    SubscriptionAcknowledged "notifications/subscriptions/acknowledged" Notification STATELESS None,               None;
}

impl Method {
    /// Whether it is answered; `None` for an unknown method.
    #[must_use]
    pub fn kind(&self) -> Option<MessageKind> {
        Some(self.row()?.kind)
    }

    /// The capability that it belongs to, if any.
    #[must_use]
    pub fn capability(&self) -> Option<Capability> {
        self.row()?.capability
    }

    /// The member of its params that `Mcp-Name` repeats, if any.
    #[must_use]
    pub fn name_member(&self) -> Option<NameMember> {
        self.row()?.name_member
    }

    /// Whether it is a request that clients make.
    #[must_use]
    pub fn is_client_request(&self) -> bool {
        let of_client = [Capability::Elicitation, Capability::Sampling, Capability::Roots];
        self.row().is_some_and(|row| {
            row.kind == MessageKind::Request
                && !row.capability.is_some_and(|needs| of_client.contains(&needs))
        })
    }

    /// Whether a server with these offers, and with or without tasks, answers it in this generation.
    /// The offers are looked up only if the method depends on them.
    #[must_use]
    pub fn is_offered(&self, generation: Generation, tasks: bool, offers: impl FnOnce() -> Offers) -> bool {
        let Some(row) = self.row().filter(|row| row.kind == MessageKind::Request) else { return false };
        row.generations.contains(&generation)
            && match row.capability {
                None | Some(Capability::Tools | Capability::Logging) => true,
                Some(Capability::Resources) => offers().resources,
                Some(Capability::Prompts) => offers().prompts,
                Some(Capability::Completions) => offers().completions,
                Some(Capability::Tasks) => tasks,
                Some(Capability::Elicitation | Capability::Sampling | Capability::Roots) => false,
            }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A name without escapes is not copied.
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
        Name::deserialize(deserializer).map(|Name(name)| Self::from(&*name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_OFFERS: Offers = Offers { resources: true, prompts: true, completions: true };

    #[test]
    fn a_method_has_one_name_one_row_and_one_place() {
        for (index, method) in Method::ALL.iter().enumerate() {
            assert_eq!(&Method::from(method.as_str()), method);
            assert_eq!(method.index(), index);
            let quoted = format!("\"{}\"", method.as_str().replace('/', "\\/"));
            assert_eq!(serde_json::from_str::<Method>(&quoted).expect("a name"), *method);
            let notifies = method.as_str().starts_with("notifications/");
            assert_eq!(method.kind() == Some(MessageKind::Notification), notifies, "{method}");
        }
        for name in ["", "Ping", "tasks/foo", "toolyard/changed"] {
            let method = Method::from(name);
            assert_eq!((method.as_str(), method.index(), method.kind()), (name, Method::ALL.len(), None));
        }
        assert!(serde_json::from_str::<Method>("5").is_err());
    }

    /// T-2, 26J-8: by generation, and by what is offered. 26T-7, 26X-8: no `roots/list`, which a host asks for.
    #[test]
    fn what_is_not_offered_does_not_exist() {
        let offered = |generation, tasks, offers: Offers| -> Vec<&str> {
            let offered = Method::ALL.iter().filter(|method| method.is_offered(generation, tasks, || offers));
            offered.map(Method::as_str).collect()
        };
        let least = offered(Generation::Stateless, false, Offers::default());
        assert_eq!(least, ["tools/call", "tools/list", "server/discover", "subscriptions/listen"]);
        let tasks = offered(Generation::Stateless, true, Offers::default());
        let own = ["tasks/get", "tasks/update", "tasks/cancel"];
        assert_eq!(tasks, [&least[..2], &own, &least[2..]].concat());
        let least = offered(Generation::Sessions, false, Offers::default());
        assert_eq!(least, ["tools/call", "tools/list", "logging/setLevel", "initialize", "ping"]);
        let every =
            [Generation::Sessions, Generation::Stateless].map(|of| offered(of, true, ALL_OFFERS).len());
        assert_eq!(every, [17, 13]);
        let client_requests = Method::ALL.iter().filter(|method| method.is_client_request());
        assert_eq!(client_requests.count(), 20);
    }
}
