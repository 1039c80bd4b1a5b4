//! The linker, which provides all imports that a component may have.

use crate::bindings::FullPlugin;
use crate::guest::state::GuestState;
use crate::wasi::{clocks, files, logging, outgoing_handler};
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup;

/// Creates the linker.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    linker.allow_shadowing(true);
    outgoing_handler::add_to_linker(&mut linker)?;
    clocks::add_to_linker(&mut linker)?;
    // Replaces wasmtime's own name look-up, which can only be allowed for all names or for none.
    ip_name_lookup::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |run| run)?;
    linker.allow_shadowing(false);
    files::add_to_linker(&mut linker)?;
    logging::add_to_linker(&mut linker)?;
    FullPlugin::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |run| run)?;
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::inspect::{inspect, is_offered};
    use crate::component::toolchain::config;
    use crate::error::Refusal;

    #[test]
    fn every_offered_interface_is_linked() {
        let engine = wasmtime::Engine::new(&config()).expect("starts");
        let linker = linker(&engine).expect("links");
        let import = |name: &str| {
            wat::parse_str(format!("(component (import \"{name}\" (instance)))")).expect("parses")
        };
        for name in "wasi:cli/environment@0.2.0 wasi:cli/terminal-stderr@0.2.3 wasi:io/poll@0.2.6 \
                     wasi:sockets/ip-name-lookup@0.2.0 wasi:random/insecure-seed@0.2.0 \
                     wasi:clocks/wall-clock@0.2.0 wasi:filesystem/preopens@0.2.0 wasi:http/types@0.2.0 \
                     wasi:http/outgoing-handler@0.2.4 toolyard:plugin/host@0.1.0 \
                     toolyard:plugin/types@0.1.0 wasi:logging/logging wasi:logging/logging@0.1.0-draft"
            .split(' ')
        {
            assert!(is_offered(name), "{name}");
            let component = wasmtime::component::Component::new(&engine, import(name)).expect(name);
            linker.instantiate_pre(&component).expect(name);
        }
        for name in "wasi:http/incoming-handler@0.2.0 wasi:http/types@0.3.0 wasi:cli/stdin@0.3.0 \
                     toolyard:plugin/host@0.2.0 a:b/c wasi:cli/x@0.2.0"
            .split(' ')
        {
            assert!(!is_offered(name), "{name}");
        }
    }

    #[test]
    fn interfaces_of_types_alone_need_no_provider() {
        let component = |imports: &str| {
            let text = format!("(component {imports} (instance $i) (export \"x:own/y\" (instance $i)))");
            wat::parse_str(text).expect("parses")
        };
        // The component's own types, imported, exported and aliased, are mixed in with them.
        let types = r#"
            (type $a u32)
            (import "a:b/types" (instance $t (type $r (record (field "n" u32))) (export "r" (type (eq $r)))))
            (alias export $t "r" (type $r))
            (import "c" (type $c (eq $r)))
            (export $e "e" (type $a))
            (import "a:b/more" (instance (alias outer 1 $r (type $r)) (export "r" (type (eq $r)))))"#;
        let alone = component(&types.replace(r#"(import "c" (type $c (eq $r)))"#, ""));
        assert_eq!(inspect(&alone).expect("is fine").imports, [""; 0]);
        let engine = wasmtime::Engine::new(&config()).expect("starts");
        let linker = linker(&engine).expect("links");
        let compiled = wasmtime::component::Component::new(&engine, &alone).expect("compiles");
        linker.instantiate_pre(&compiled).expect("links");
        for provided in [
            r#"(export "f" (func))"#,
            r#"(export "r" (type (sub resource)))"#,
            r#"(type $t u8) (export "t" (type (eq $t))) (export "i" (instance (export "f" (func))))"#,
        ] {
            let import = format!("{types} (import \"a:b/provided\" (instance {provided}))");
            let Err(Refusal::Imports { names }) = inspect(&component(&import)) else {
                panic!("{provided} is not refused");
            };
            assert_eq!(names, ["c", "a:b/provided"]);
        }
    }
}
