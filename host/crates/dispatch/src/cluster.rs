//! Several hosts on one store: recovery, work stealing, maintenance, drain.

pub(crate) mod drain;
pub(crate) mod maintenance;
pub(crate) mod recovery;
pub(crate) mod work_stealing;
