//! Digests, keys, signatures, definitions and the lock file, tested with files that cosign made.

mod signed;

mod check;
mod decide;
mod definitions;
mod keys;
mod live;
mod lock;
mod provenance;
mod reference;
mod signatures;
