//! Attacks: guests that try to get out, to use the host up, to hold it up, to
//! crash it or to deceive it. Each ends in the refusal or the limit that it is
//! meant to meet, by name; another client is served before, during and after; and
//! when a family of them is over, the host is at rest again.
//!
//! The pages in `host/docs/reference/attacks` list them all; `tests/checklist.rs` holds the
//! list and these functions against each other.

/// Runs attacks on a stage one after the other. Each is a function of its name.
macro_rules! attacks {
    ($stage:expr; $($name:ident),* $(,)?) => {
        $($stage.attack(stringify!($name), $name(&$stage)).await;)*
    };
}

mod crashes;
mod database;
mod files;
mod folder;
mod grants;
mod keeping;
mod listing;
mod loading;
mod mounts;
mod names;
mod reports;
mod resources;
mod results;
mod rules;
mod schemas;
mod stage;
mod terminal;
mod time;
mod typed;
mod users;
