//! The program `toolyard`.

fn main() -> std::process::ExitCode {
    toolyard::run()
}
