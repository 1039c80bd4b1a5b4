//! The calls of clients: tools, resources, prompts, sessions.

pub(crate) mod argument_check;
pub(crate) mod bridged;
pub(crate) mod host_tools;
mod loading;
pub(crate) mod reply;
pub(crate) mod resources;
pub(crate) mod resources_prompts;
pub(crate) mod sessions;
pub(crate) mod stateless;
pub(crate) mod tasks;
mod tool_search;
pub(crate) mod tools_call;
