//! The grants of a manifest as lines of text. `toolyard.lock` lists them: a reviewer reads them, and the host
//! compares a changed manifest with them.

use crate::granted_by::GrantedBy;
use crate::manifest::Manifest;
use crate::secrets::Source;
use crate::wasi::ClockGrant;

impl Manifest {
    /// Everything that lets its plugin do more than compute, one line each, sorted. Two manifests that grant the
    /// same have the same lines. A line has no values of environment variables or secrets.
    #[must_use]
    pub fn grant_lines(&self) -> Vec<String> {
        let asked = |by: GrantedBy| if by == GrantedBy::Person { ", if the person agrees" } else { "" };
        let mut lines = Vec::new();
        for folder in &self.folders {
            let (mode, by) = (folder.mode.as_str(), asked(folder.by));
            lines.push(format!("fs {} = {:?}, {mode}{by}", folder.guest, folder.path));
        }
        lines.extend(self.http.rules.iter().map(|rule| format!("http {rule}")));
        for injection in &self.http.injections {
            for header in &injection.headers {
                let mut secrets: Vec<&str> = header.value.secrets().collect();
                secrets.sort_unstable();
                let secrets = match secrets.is_empty() {
                    true => String::new(),
                    false => format!(" with the secret {}", secrets.join(", ")),
                };
                lines.push(format!("header {} for {}{secrets}", header.name, injection.written));
            }
        }
        for (protocol, rules) in [("tcp", &self.sockets.tcp), ("udp", &self.sockets.udp)] {
            let private = |private| if private { ", private addresses too" } else { "" };
            lines.extend(rules.iter().map(|rule| format!("{protocol} {rule}{}", private(rule.private))));
        }
        lines.extend(self.env.iter().map(|(name, _)| format!("env {name}")));
        for secret in &self.secrets {
            let source = match &secret.source {
                Source::Variable(name) => format!("variable {name}"),
                Source::File(path) => format!("file {path:?}"),
                Source::Command(name) => format!("command {name:?}"),
            };
            let seen = if secret.expose == Some(true) { ", seen by the guest" } else { "" };
            lines.push(format!("secret {} from the {source}{seen}", secret.name));
        }
        if self.clock == ClockGrant::Exact {
            lines.push("wasi clock exact".to_owned());
        }
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::Limits;
    use crate::manifest::Manifest;

    #[test]
    fn every_grant_of_a_manifest_is_one_line_without_values() {
        let manifest = r#"
            [fs]
            "/data" = { path = "./data", mode = "write" }
            "/more" = { path = "../more", mode = "read", grant = "ask" }
            "/own" = { path = "/srv/own", mode = "read", grant = "always" }
            [http]
            allow = [
                "*.example.com",
                { host = "api.example.org", port = 8443, methods = ["GET", "POST"], scheme = "https" },
                { host = "api.example.org", grant = "always" },
                { host = "*.example.org", grant = "ask" },
                { host = "intranet.corp", private = true },
            ]
            [http.inject."api.example.org"]
            Authorization = "Bearer {KEY}"
            X-Plain = "plain"
            [sockets]
            tcp = ["10.0.0.5:6379", { to = "db.corp:5432", private = true }]
            udp = ["1.1.1.1:53"]
            [env]
            LANG = "C"
            [secrets]
            KEY = { env = "API_KEY" }
            SEEN = { file = "./seen", expose = true }
            [wasi]
            clock = "exact"
        "#;
        let manifest = Manifest::parse("a.toml", manifest, &Limits::default()).expect("is valid");
        assert_eq!(
            manifest.grant_lines(),
            [
                "env LANG",
                r#"fs /data = "./data", write"#,
                r#"fs /more = "../more", read, if the person agrees"#,
                r#"fs /own = "/srv/own", read"#,
                "header authorization for api.example.org with the secret KEY",
                "header x-plain for api.example.org",
                "http *.example.com",
                "http *.example.org, if the person agrees",
                "http api.example.org",
                "http https://api.example.org:8443 GET,POST",
                "http intranet.corp, private addresses too",
                r#"secret KEY from the variable API_KEY"#,
                r#"secret SEEN from the file "./seen", seen by the guest"#,
                "tcp 10.0.0.5:6379",
                "tcp db.corp:5432, private addresses too",
                "udp 1.1.1.1:53",
                "wasi clock exact",
            ]
        );
        assert!(Manifest::absent(&Limits::default()).grant_lines().is_empty());
    }
}
