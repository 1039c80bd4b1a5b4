//! The actions of pages. Each is a POST with a token of its form; a new one is one more variant.

use crate::user::Role;

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// Ends the login.
    Logout,
    /// Chooses light or dark pages.
    Theme,
    /// Cancels a task.
    Cancel(&'a str),
    /// Answers a question of a task.
    Answer(&'a str),
    /// Lets a call run.
    Approve(&'a str),
    /// Ends a call that has not run.
    Deny(&'a str),
    /// Revokes a permission, by its id.
    RevokeGrant(&'a str),
    /// Revokes all permissions of a plugin; its file as a segment of the path.
    RevokePlugin(&'a str),
    /// Revokes all permissions of a principal; its name as a segment of the path.
    RevokePrincipal(&'a str),
    /// Ends the session of a client, by its digest.
    EndSession(&'a str),
    /// Calls a tool; its name as a segment of the path.
    Try(&'a str),
}

impl<'a> Action<'a> {
    /// The action at this path.
    pub fn of(path: &'a str) -> Option<Self> {
        match path {
            "/logout" => Some(Self::Logout),
            "/theme" => Some(Self::Theme),
            _ => {
                if let Some(tool) = path.strip_prefix("/try/").filter(|tool| !tool.contains('/')) {
                    return Some(Self::Try(tool));
                }
                let mut parts = path.strip_prefix('/')?.split('/');
                Some(match (parts.next()?, parts.next()?, parts.next()?, parts.next()) {
                    ("tasks", id, "cancel", None) => Self::Cancel(id),
                    ("tasks", id, "answer", None) => Self::Answer(id),
                    ("tasks", id, "approve", None) => Self::Approve(id),
                    ("tasks", id, "deny", None) => Self::Deny(id),
                    ("permissions", id, "revoke", None) => Self::RevokeGrant(id),
                    ("permissions", "plugin", file, Some("revoke")) => Self::RevokePlugin(file),
                    ("permissions", "principal", name, Some("revoke")) => Self::RevokePrincipal(name),
                    ("clients", digest, "end", None) => Self::EndSession(digest),
                    _ => return None,
                })
                .filter(|_| parts.next().is_none())
            }
        }
    }

    pub fn path(self) -> String {
        match self {
            Self::Logout => "/logout".to_owned(),
            Self::Theme => "/theme".to_owned(),
            Self::Cancel(id) => format!("/tasks/{id}/cancel"),
            Self::Answer(id) => format!("/tasks/{id}/answer"),
            Self::Approve(id) => format!("/tasks/{id}/approve"),
            Self::Deny(id) => format!("/tasks/{id}/deny"),
            Self::RevokeGrant(id) => format!("/permissions/{id}/revoke"),
            Self::RevokePlugin(file) => format!("/permissions/plugin/{file}/revoke"),
            Self::RevokePrincipal(name) => format!("/permissions/principal/{name}/revoke"),
            Self::EndSession(digest) => format!("/clients/{digest}/end"),
            Self::Try(tool) => format!("/try/{tool}"),
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Logout => "logout",
            Self::Theme => "theme",
            Self::Cancel(_) => "cancel",
            Self::Answer(_) => "answer",
            Self::Approve(_) => "approve",
            Self::Deny(_) => "deny",
            Self::RevokeGrant(_) => "revoke-grant",
            Self::RevokePlugin(_) => "revoke-plugin",
            Self::RevokePrincipal(_) => "revoke-principal",
            Self::EndSession(_) => "end-session",
            Self::Try(_) => "try",
        }
    }

    /// The object that it changes.
    pub const fn target(self) -> &'a str {
        match self {
            Self::Logout | Self::Theme => "",
            Self::Cancel(target)
            | Self::Answer(target)
            | Self::Approve(target)
            | Self::Deny(target)
            | Self::RevokeGrant(target)
            | Self::RevokePlugin(target)
            | Self::RevokePrincipal(target)
            | Self::EndSession(target)
            | Self::Try(target) => target,
        }
    }
}

impl Role {
    /// The least role for an action.
    pub(crate) const fn of_action(action: Action<'_>) -> Self {
        match action {
            Action::Logout | Action::Theme => Self::Viewer,
            Action::Answer(_) | Action::Approve(_) | Action::Deny(_) => Self::Approver,
            Action::Cancel(_)
            | Action::RevokeGrant(_)
            | Action::RevokePlugin(_)
            | Action::RevokePrincipal(_)
            | Action::EndSession(_)
            | Action::Try(_) => Self::Admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_its_own_path() {
        let all = [
            Action::Logout,
            Action::Theme,
            Action::Cancel("7"),
            Action::Answer("7"),
            Action::Approve("7"),
            Action::Deny("7"),
            Action::RevokeGrant("7"),
            Action::RevokePlugin("7"),
            Action::RevokePrincipal("7"),
            Action::EndSession("7"),
            Action::Try("7"),
        ];
        for action in all {
            assert_eq!(Action::of(&action.path()), Some(action));
        }
        let others = "/tasks/7 /tasks/7/delete /tasks/7/cancel/x /permissions/plugin/7/revoke/x / /login";
        for path in others.split(' ') {
            assert_eq!(Action::of(path), None, "{path}");
        }
    }

    #[test]
    fn a_viewer_changes_nothing_and_an_approver_only_decides() {
        let of_task = [Action::Answer("7"), Action::Approve("7"), Action::Deny("7")];
        assert!(of_task.iter().all(|action| Role::of_action(*action) == Role::Approver));
        assert_eq!(Role::of_action(Action::Cancel("7")), Role::Admin);
        assert!(Role::Viewer < Role::Approver && Role::Approver < Role::Admin);
    }
}
