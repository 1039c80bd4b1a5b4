//! How many run at once, and which runs there are.

pub(crate) mod admission;
pub(crate) mod registry;
pub(crate) mod stop;
pub(crate) mod work;
