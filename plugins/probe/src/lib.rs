//! Small tools that show the host's behavior: waiting, computing, failing, asking, trapping, using memory.
//! Call them when you set up a host or a client, to see progress, tasks, questions, cancellation and limits
//! at work.

mod asking;
mod inputs;
mod spending;
mod stepping;

use std::time::Instant;

use toolyard_plugin::{Error, NoArguments, Tool, plugin, sleep};

use crate::inputs::{Duration, Failure, ProtocolError, Text};

fn echo(Text { text }: Text) -> Result<String, Error> {
    Ok(text)
}

fn wait(Duration { ms }: Duration) -> Result<String, Error> {
    sleep(std::time::Duration::from_millis(ms));
    Ok(format!("waited {ms} ms"))
}

fn spin(Duration { ms }: Duration) -> Result<String, Error> {
    spending::spin(ms, Instant::now);
    Ok(format!("spun {ms} ms"))
}

fn fail(Failure { message }: Failure) -> Result<(), Error> {
    Err(Error::new(message))
}

fn protocol_error(ProtocolError { code, message }: ProtocolError) -> Result<(), Error> {
    Err(Error::protocol(code, message))
}

fn trap(_: NoArguments) -> Result<(), Error> {
    spending::trap()
}

plugin! {
    tools: [
        Tool::new("echo", echo)
            .title("Echo")
            .description("Returns the text it is given. The quickest way to see that the host works.")
            .forbidden_task()
            .pure(),
        Tool::new("wait", wait)
            .title("Wait")
            .description(
                "Sleeps in the host for some milliseconds, which costs neither processor time nor a thread, \
                 then returns.",
            )
            .pure(),
        Tool::new("spin", spin)
            .title("Spin")
            .description(
                "Computes without pause for some milliseconds, to see a busy tool being limited or cancelled.",
            )
            .pure(),
        Tool::new("fail", fail)
            .title("Fail")
            .description(
                "Fails the way a tool fails: a result marked as an error, with this message for the model.",
            )
            .pure(),
        Tool::new("protocol_error", protocol_error)
            .title("Protocol error")
            .description(
                "Fails the way a request fails: the reply is a JSON-RPC error with this code and message, and \
                 no result.",
            )
            .pure(),
        Tool::new("count", stepping::count)
            .title("Count")
            .description("Counts to a number, sleeping before each step and reporting progress after it.")
            .pure(),
        // The answers come from the user, and may differ next time.
        Tool::new("ask", asking::ask)
            .title("Ask")
            .description(
                "Asks the user one question and returns the answer, or says that the user declined, cancelled \
                 or cannot be asked.",
            )
            .read_only()
            .idempotent(false)
            .open_world(true),
        Tool::new("confirm", asking::confirm)
            .title("Confirm")
            .description(
                "Becomes a task where the client knows tasks, then asks the user a yes-or-no question and \
                 returns \"yes\", \"no\", \"declined\" or \"cancelled\".",
            )
            .read_only()
            .idempotent(false)
            .open_world(true),
        Tool::new("trap", trap)
            .title("Trap")
            .description("Crashes, as a tool with a bug would, to see that nothing else is harmed.")
            .pure(),
        Tool::new("grow", spending::grow)
            .title("Grow")
            .description("Allocates and writes to this much memory, to show the memory limit.")
            .pure(),
        Tool::new("flood", spending::flood)
            .title("Flood")
            .description("Returns this much text, to show the limit on output.")
            .pure(),
        Tool::new("batch", stepping::count)
            .title("Batch")
            .description("Works like `count`, but only as a task.")
            .required_task()
            .pure(),
    ]
}
