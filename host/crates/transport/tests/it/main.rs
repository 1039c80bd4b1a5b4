//! The transports on real sockets and pipes, with tools written in Rust.

mod kit;
mod overload;
mod relay;
mod stateless_http;
mod stateless_stdio;
