//! The test kit: clients, stores that fail, and applications.

pub mod application;
pub mod calls;
pub mod client;
pub mod faulty;
pub mod prelude;
pub mod stateless;
pub mod swept;
