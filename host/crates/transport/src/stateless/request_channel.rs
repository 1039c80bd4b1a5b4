//! Notices of a running request: only on its own stream and before its answer (26C-3, 26C-4).

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use toolyard_dispatch::{ClientChannel, ClientRoute, Notice, RouteScope, TaskId};
use toolyard_protocol::{LogLevel, notification, progress};

/// The receiver of the messages. It must not block.
type Sink = Box<dyn Fn(Bytes) + Send>;

/// The channel of one request. It carries progress and, if the request names a log level, log messages at
/// that level or above. It carries no notices of tasks and no questions: a guest's questions are part of the
/// answer (26J-1).
pub(crate) struct RequestChannel {
    least: Option<LogLevel>,
    /// Present until the answer is sent.
    sink: Mutex<Option<Sink>>,
}

impl RequestChannel {
    /// A channel to `sink` for a request that named this level.
    pub fn new(least: Option<LogLevel>, sink: impl Fn(Bytes) + Send + 'static) -> Arc<Self> {
        Arc::new(Self { least, sink: Mutex::new(Some(Box::new(sink))) })
    }

    /// The answer is sent, or there will be none: no notice may follow.
    pub fn close(&self) {
        drop(self.sink.lock().take());
    }

    fn message(&self, notice: &Notice) -> Option<Bytes> {
        match notice {
            Notice::Progress { token, progress } => Some(progress::progress(token, None, progress)),
            Notice::Log { level, logger, data } => self
                .least
                .is_some_and(|least| *level >= least)
                .then(|| notification::log_message(*level, logger.as_deref(), data, None)),
            Notice::Status(_) | Notice::ToolsChanged | Notice::ElicitationComplete { .. } => None,
        }
    }
}

impl ClientChannel for RequestChannel {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        if task.is_some() {
            return;
        }
        let Some(message) = self.message(&notice) else { return };
        // Sent under the lock, so that no notice follows the answer.
        if let Some(sink) = &*self.sink.lock() {
            sink(message);
        }
    }

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use toolyard_protocol::RawJson;
    use toolyard_protocol::progress::Progress;

    fn step() -> Notice {
        let progress = Progress { progress: 1.0, total: None, message: None };
        Notice::Progress { token: RawJson::trusted("7"), progress }
    }

    #[test]
    fn t_26c_3_nothing_is_told_of_a_task_or_after_the_answer() {
        let (sender, told) = mpsc::channel();
        let tell = move |message: Bytes| sender.send(message).expect("a reader");
        let channel = RequestChannel::new(Some(LogLevel::Debug), tell);
        let id = TaskId::parse("786512e2-9e0d-44bd-8f29-789f320fe840").expect("an id");
        let log = Notice::Log { level: LogLevel::Error, logger: None, data: RawJson::trusted("1") };
        channel.notify(Some(id), step());
        channel.notify(Some(id), log);
        assert!(told.try_recv().is_err(), "of a task");
        assert!(channel.route(None, RouteScope::Anywhere).is_none(), "26J-1: it asks nothing");
        channel.notify(None, step());
        assert!(told.try_recv().is_ok());
        channel.close();
        channel.notify(None, step());
        assert!(told.try_recv().is_err(), "after the answer");
    }
}
