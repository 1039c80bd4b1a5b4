//! The actions of pages. Each is a POST with a token of its form; a new one is one more variant with its facts.

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

/// The facts about an action.
pub(crate) struct Facts<'a> {
    pub name: &'static str,
    /// The path, with `{}` in place of the target.
    path: &'static str,
    /// The object that it changes.
    pub target: &'a str,
    /// The least role for it.
    pub role: Role,
}

impl<'a> Action<'a> {
    const ALL: [fn(&'a str) -> Self; 11] = [
        |_| Self::Logout,
        |_| Self::Theme,
        Self::Cancel,
        Self::Answer,
        Self::Approve,
        Self::Deny,
        Self::RevokeGrant,
        Self::RevokePlugin,
        Self::RevokePrincipal,
        Self::EndSession,
        Self::Try,
    ];

    pub const fn facts(self) -> Facts<'a> {
        let (name, path, target, role) = match self {
            Self::Logout => ("logout", "/logout", "", Role::Viewer),
            Self::Theme => ("theme", "/theme", "", Role::Viewer),
            Self::Cancel(id) => ("cancel", "/tasks/{}/cancel", id, Role::Admin),
            Self::Answer(id) => ("answer", "/tasks/{}/answer", id, Role::Approver),
            Self::Approve(id) => ("approve", "/tasks/{}/approve", id, Role::Approver),
            Self::Deny(id) => ("deny", "/tasks/{}/deny", id, Role::Approver),
            Self::RevokeGrant(id) => ("revoke-grant", "/permissions/{}/revoke", id, Role::Admin),
            Self::RevokePlugin(file) => ("revoke-plugin", "/permissions/plugin/{}/revoke", file, Role::Admin),
            Self::RevokePrincipal(name) => {
                ("revoke-principal", "/permissions/principal/{}/revoke", name, Role::Admin)
            }
            Self::EndSession(digest) => ("end-session", "/clients/{}/end", digest, Role::Admin),
            Self::Try(tool) => ("try", "/try/{}", tool, Role::Admin),
        };
        Facts { name, path, target, role }
    }

    /// The action at this path.
    pub fn of(path: &'a str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|action| match action("").facts().path.split_once("{}") {
            None => (action("").facts().path == path).then(|| action("")),
            Some((before, after)) => {
                let target = path.strip_prefix(before)?.strip_suffix(after)?;
                (!target.contains('/')).then(|| action(target))
            }
        })
    }

    pub fn path(self) -> String {
        let Facts { path, target, .. } = self.facts();
        path.replace("{}", target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_its_own_path() {
        for action in Action::ALL.map(|action| action("7")) {
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
        assert!(of_task.iter().all(|action| action.facts().role == Role::Approver));
        assert_eq!(Action::Cancel("7").facts().role, Role::Admin);
        assert!(Role::Viewer < Role::Approver && Role::Approver < Role::Admin);
    }
}
