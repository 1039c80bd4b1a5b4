//! What a store holds for the guest in it.

pub(crate) mod about;
pub(crate) mod state;
