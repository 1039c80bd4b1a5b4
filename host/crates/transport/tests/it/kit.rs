//! The test kit: clients at pipes and sockets, requests, and a server with tools written in Rust.

pub mod client;
pub mod pipe;
pub mod request;
pub mod server;
