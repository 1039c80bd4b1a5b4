//! The test kit: tools written in Rust, clients, stores that fail, and settings.

pub mod calls;
pub mod client;
pub mod faulty;
pub mod native;
pub mod settings;
pub mod stateless;
pub mod swept;
