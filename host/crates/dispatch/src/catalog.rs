//! The tools, resources and prompts that are offered now.

pub(crate) mod changes;
pub(crate) mod resource_index;
pub(crate) mod tools_list;
