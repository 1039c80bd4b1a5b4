//! The imports that a component uses to get out of pure computation, found by the functions that it
//! imports: standard libraries import whole interfaces that most programs never call into, and
//! toolchains leave out the functions that nothing calls.

use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

/// A way out of pure computation, and the section of the manifest that grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportUse {
    /// It opens files and folders.
    Files,
    /// It sends HTTP requests.
    Http,
    /// It opens TCP connections.
    Tcp,
    /// It sends UDP datagrams.
    Udp,
    /// It reads environment variables; every standard library does.
    Environment,
}

impl ImportUse {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Files, Self::Http, Self::Tcp, Self::Udp, Self::Environment];

    /// The key of the manifest that grants it.
    #[must_use]
    pub const fn section(self) -> &'static str {
        match self {
            Self::Files => "fs",
            Self::Http => "http",
            Self::Tcp => "sockets.tcp",
            Self::Udp => "sockets.udp",
            Self::Environment => "env",
        }
    }

    /// The use that a component makes of the import, in the third person.
    #[must_use]
    pub const fn does(self) -> &'static str {
        match self {
            Self::Files => "opens files and folders",
            Self::Http => "sends HTTP requests",
            Self::Tcp => "opens TCP connections",
            Self::Udp => "sends UDP datagrams",
            Self::Environment => "reads environment variables",
        }
    }

    /// An example of what to write there.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::Files => "\"/data\" = { path = \"./data\", mode = \"read\" }",
            Self::Http => "allow = [\"api.example.com\"]",
            Self::Tcp => "tcp = [\"db.example.com:5432\"]",
            Self::Udp => "udp = [\"192.0.2.1:53\"]",
            Self::Environment => "LANG = \"C\"",
        }
    }

    /// The interface of WASI that it goes through.
    #[must_use]
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Files => "wasi:filesystem/types",
            Self::Http => "wasi:http/outgoing-handler",
            Self::Tcp => "wasi:sockets/tcp-create-socket",
            Self::Udp => "wasi:sockets/udp-create-socket",
            Self::Environment => "wasi:cli/environment",
        }
    }

    fn is_by(self, function: &str) -> bool {
        match self {
            Self::Files => function.ends_with("-at") || function.ends_with(".read-directory"),
            Self::Http => function == "handle",
            Self::Tcp => function == "create-tcp-socket",
            Self::Udp => function == "create-udp-socket",
            Self::Environment => function == "get-environment",
        }
    }
}

/// The imports that a component uses.
pub(crate) fn of(component: &Component) -> Vec<ImportUse> {
    let engine = component.engine();
    let mut found = Vec::new();
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        let interface = name.split('@').next().unwrap_or_default();
        for (function, _) in instance.exports(engine) {
            found.extend(
                ImportUse::ALL.iter().filter(|used| used.interface() == interface && used.is_by(function)),
            );
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
