//! The state that a store holds for its guest.

pub(crate) mod about;
pub(crate) mod state;
