//! Digests, keys, signatures, definitions and the lock file, tested with files that cosign made.

mod signed;
mod signing;

mod check;
mod decide;
mod definitions;
mod keys;
mod lock;
mod provenance;
mod reference;
mod signatures;
