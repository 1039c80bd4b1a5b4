//! The form that the user sees, and the possible answers.

use crate::run::questions::choice_form::{choice_form, chosen};
use crate::run::run::Run;
use toolyard_protocol::RawJson;
use toolyard_protocol::question::CheckedQuestion;
use toolyard_task::permission::Access;
use toolyard_task::{AccessRequest, Owner};

/// The longest name of a host that is shown whole; no name in the DNS is longer.
const MAX_HOST_CHARS: usize = 253;

/// An answer of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermissionAnswer {
    /// Yes, for this one use.
    Once,
    /// Yes, until the task or the call ends.
    Task,
    /// Yes, until it is taken back.
    Always,
    /// No, until the task or the call ends.
    No,
    /// No, until that is taken back.
    Never,
}

/// Which of them are offered.
#[derive(Debug, Clone, Copy)]
pub(super) struct PermissionChoices {
    /// A yes for the whole task or call, where that is more than one use.
    pub for_task: bool,
    /// A permanent answer, if the host can recognize its owner again.
    pub for_ever: bool,
}

impl PermissionChoices {
    pub const ALL: Self = Self { for_task: true, for_ever: true };

    fn has(self, decision: PermissionAnswer) -> bool {
        match decision {
            PermissionAnswer::Once | PermissionAnswer::No => true,
            PermissionAnswer::Task => self.for_task,
            PermissionAnswer::Always | PermissionAnswer::Never => self.for_ever,
        }
    }
}

impl PermissionAnswer {
    const ALL: [Self; 5] = [Self::Once, Self::Task, Self::Always, Self::No, Self::Never];

    /// The value in the form. Clients that show nothing but values show these.
    const fn value(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Task => "task",
            Self::Always => "always",
            Self::No => "no",
            Self::Never => "never",
        }
    }

    fn title(self, of: &Run) -> &'static str {
        let session = matches!(of.client.owner, Some(Owner::Session(_)));
        match self {
            Self::Once => "Yes, this once",
            Self::Task if of.task().is_some() => "Yes, for this task",
            Self::Task => "Yes, for this call",
            Self::Always if session => "Yes, for this session",
            Self::Always => "Yes, always (until this plugin changes)",
            Self::No => "No",
            Self::Never if session => "No, and do not ask again in this session",
            Self::Never => "No, never (until this plugin changes)",
        }
    }

    /// The answer in an `ElicitResult`, if it was among the choices; `None` for a declined or
    /// cancelled form.
    pub(super) fn read(answer: &RawJson, offered: &PermissionChoices) -> Option<Self> {
        let said = chosen(answer)?;
        Self::ALL.into_iter().find(|decision| decision.value() == said && offered.has(*decision))
    }
}

/// The form.
pub(super) fn question(of: &Run, wanted: &AccessRequest, offered: &PermissionChoices) -> CheckedQuestion {
    let choices = PermissionAnswer::ALL.into_iter().filter(|decision| offered.has(*decision));
    let choices = choices.map(|decision| (decision.value(), decision.title(of)));
    choice_form(&message(of, wanted), "Allow it?", choices)
}

/// The question in words. Names that come from a guest or a manifest are quoted, with all
/// characters escaped that could hide or reverse a part of them (`Debug` of a text escapes control,
/// format and separator characters).
fn message(of: &Run, wanted: &AccessRequest) -> String {
    let (plugin, _) = of.work.component();
    let who = match of.work.tool_name() {
        Some(tool) => format!("The tool {tool:?} of the plugin {plugin:?}"),
        None => format!("The plugin {plugin:?}"),
    };
    match wanted {
        AccessRequest::Folder { guest, path, named, access } => {
            let does = match access {
                Access::Read => "to read the files",
                Access::Write => "to read, create, change and delete files",
            };
            // Only users of this machine may see where the folders of the host are.
            let place = if of.client.owner == Some(Owner::Local) { path } else { named };
            format!("{who} wants {does} in the folder {place:?}, which it calls {guest:?}. May it?")
        }
        AccessRequest::Host { scheme, host, port } => {
            let host: String = host.chars().take(MAX_HOST_CHARS).flat_map(char::escape_default).collect();
            format!("{who} wants to send requests to the host \"{scheme}://{host}:{port}\". May it?")
        }
    }
}
