//! The client against a real registry, with a proxy before it that misbehaves.

#[path = "../kit/kit.rs"]
mod kit;

mod authorization;
mod bounds;
mod kinds;
mod redirects;
mod signatures;
mod tools;
mod transport;
