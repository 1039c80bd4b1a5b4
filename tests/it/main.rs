//! The whole, driven from outside: the real binary, real sockets and pipes, real
//! components. Tests cite the items of the protocol checklists.

mod audit;
mod authentication;
mod authority;
mod clients;
mod command_line;
mod examples;
mod fetching;
mod grants;
mod http_endpoint;
mod identity;
mod inspector;
mod lifecycle;
mod limits;
mod network;
mod notices;
mod observed;
mod offered;
mod ownership;
mod permissions;
mod provenance;
mod questions;
mod rates;
mod raw_bytes;
mod recovery;
mod refusals;
mod reload;
mod requestor;
mod secrets;
mod sockets;
mod stdio;
mod streams;
mod tasks;
mod tools;
mod traced;
