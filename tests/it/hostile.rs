//! Attacks: guests that try to escape, exhaust, block, crash or deceive the host. Each attack meets its
//! refusal or limit, by name. Another client is served before, during and after it. After each family of
//! attacks, the host is at rest again.
//!
//! The pages in `host/docs/reference/attacks` list them all; `tests/checklist.rs` compares that list with
//! these functions.

/// Runs attacks on a stage one after the other. Each attack is a function with its name.
macro_rules! attacks {
    ($stage:expr; $($name:ident),* $(,)?) => {
        $($stage.attack(stringify!($name), $name(&$stage)).await;)*
    };
}

/// Attacks that are calls of these tools, which must fail with a text that has all of these phrases.
macro_rules! fails {
    ($stage:expr; $($name:ident: $tool:literal => $says:expr),* $(,)?) => {
        $($stage.attack(stringify!($name), $stage.fails($tool, serde_json::json!({}), &$says)).await;)*
    };
}

mod database;
mod files;
mod folder;
mod grants;
mod holding;
mod keeping;
mod listing;
pub mod loading;
mod mounts;
mod rules;
mod runs;
mod schemas;
mod stage;
mod terminal;
mod users;
