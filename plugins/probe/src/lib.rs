//! Small tools that show what the host does: waiting, computing, failing,
//! asking, trapping, using memory. Whoever sets up a host or a client calls
//! them to see progress, tasks, questions, cancelling and limits at work.

mod asking;
mod declarations;
mod inputs;
mod spending;
mod stepping;

use contract::{CallError, Guest, RpcError, Tool, ToolResult, arguments, host, result};

struct Probe;

impl Guest for Probe {
    fn list_tools() -> Vec<Tool> {
        declarations::tools()
    }

    fn call(name: String, arguments: String) -> Result<ToolResult, CallError> {
        let arguments = arguments.as_str();
        match name.as_str() {
            "echo" => Ok(result::text(arguments::read::<inputs::Text>(arguments)?.text)),
            "wait" => {
                let ms = arguments::read::<inputs::Duration>(arguments)?.ms;
                host::sleep(ms);
                Ok(result::text(format!("waited {ms} ms")))
            }
            "spin" => {
                let ms = arguments::read::<inputs::Duration>(arguments)?.ms;
                spending::spin(ms, std::time::Instant::now);
                Ok(result::text(format!("spun {ms} ms")))
            }
            "fail" => Ok(result::failure(arguments::read::<inputs::Message>(arguments)?.message)),
            "protocol_error" => {
                let inputs::ProtocolError { code, message } = arguments::read(arguments)?;
                Err(CallError::Rpc(RpcError { code, message, data: None }))
            }
            "count" | "batch" => Ok(stepping::count(arguments::read(arguments)?)),
            "ask" => Ok(asking::ask(&arguments::read::<inputs::Question>(arguments)?.question)),
            "confirm" => Ok(asking::confirm(&arguments::read::<inputs::Question>(arguments)?.question)),
            "trap" => spending::trap(),
            "grow" => Ok(spending::grow(arguments::read::<inputs::Size>(arguments)?.mib)),
            "flood" => Ok(spending::flood(arguments::read::<inputs::Size>(arguments)?.mib)),
            _ => Err(arguments::unknown_tool(&name)),
        }
    }
}

contract::export!(Probe with_types_in contract::bindings);
