//! The journal as a specification: what is recorded is repeated, from every prefix, and nothing else is.

mod script;

mod allocations;
mod damage;
mod divergence;
mod exchanges;
mod format;
mod history;
mod limits;
mod random;
mod repetition;
mod replay;
