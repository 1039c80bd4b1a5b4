//! `toolyard rules`: explains the access rules of the configuration.

use super::table::{self, Column};
use super::{WrongUsage, configure};
use crate::config::{Config, Flags};
use clap::{Args, Subcommand};
use std::collections::BTreeSet;
use std::process::ExitCode;
use toolyard_cli::output;
use toolyard_dispatch::rules::{AccessRules, Decision, Effect, EvaluatedRule, Mismatch, Object};
use toolyard_dispatch::{Principal, RawJson, Subject};

/// The exit code for what the rules deny.
const DENIED: u8 = 3;

/// The options of `rules`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say which rule decides whether a principal may use a tool, and why.
    Explain(Explain),
}

#[derive(Debug, Args)]
struct Explain {
    /// anonymous, local, token:NAME, or ISSUER#SUBJECT such as
    /// https://idp.example.com#alice.
    principal: String,
    /// The name of the tool, or of a prompt, or the URI of a resource, as the flags say.
    tool: String,
    /// TOOL is the URI of a resource.
    #[arg(long, conflicts_with = "prompt")]
    resource: bool,
    /// TOOL is the name of a prompt.
    #[arg(long)]
    prompt: bool,
    /// A scope of the principal's token; may be repeated.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// The client that the token was issued to.
    #[arg(long)]
    client: Option<String>,
    /// The claims of the token, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    claims: String,
    /// The arguments of the call, a JSON object.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["resource", "prompt"])]
    arguments: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the chosen command.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = configure(flags, None)?;
    let Action::Explain(asked) = &options.action;
    let authority = AccessRules::new(config.rules.clone())?;
    let principal = asked.principal(&config)?;
    let arguments = asked.arguments()?;
    let object = match (asked.resource, asked.prompt) {
        (true, _) => Object::Resource(&asked.tool),
        (_, true) => Object::Prompt(&asked.tool),
        _ => Object::Tool(&asked.tool),
    };
    let decision = match &arguments {
        Some(arguments) => authority.allows(&principal, object, arguments),
        None => authority.shows(&principal, object),
    };
    let steps = authority.explain(&principal, object, arguments.as_ref());
    if asked.json {
        output::json(as_json(&principal, asked, &decision, &authority, &steps));
    } else {
        output::say_text(&as_text(&principal, asked, &decision, &authority, &steps));
    }
    Ok(match decision {
        Decision::Allowed(_) => ExitCode::SUCCESS,
        Decision::Denied(_) | Decision::NeedsScopes(_) => ExitCode::from(DENIED),
    })
}

impl Explain {
    fn principal(&self, config: &Config) -> Result<Principal, WrongUsage> {
        let (issuer, subject) = match self.principal.as_str() {
            "anonymous" => return Ok(Principal::Anonymous),
            "local" => return Ok(Principal::Local),
            text => match (text.split_once('#'), text.strip_prefix("token:")) {
                (Some(parts), _) => parts,
                (None, Some(name)) => (Subject::TOKENS, name),
                (None, None) => {
                    return Err(WrongUsage(format!(
                        "`{text}` is not a principal: expected anonymous, local, token:NAME or ISSUER#SUBJECT"
                    )));
                }
            },
        };
        let claims: serde_json::Value = serde_json::from_str(&self.claims)
            .ok()
            .filter(serde_json::Value::is_object)
            .ok_or_else(|| WrongUsage("the claims must be a JSON object".to_owned()))?;
        let mut scopes: BTreeSet<String> = self.scopes.iter().cloned().collect();
        if issuer == Subject::TOKENS {
            let known = config.auth.tokens.iter().find(|token| token.name == subject);
            scopes.extend(known.into_iter().flat_map(|token| token.scopes.iter().cloned()));
        }
        Ok(Principal::Subject(Subject {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            client: self.client.clone(),
            scopes,
            claims,
            expires_at: None,
        }))
    }

    fn arguments(&self) -> Result<Option<RawJson>, WrongUsage> {
        let Some(text) = &self.arguments else { return Ok(None) };
        let arguments = RawJson::parse(text.clone()).ok().filter(RawJson::is_object);
        arguments.map(Some).ok_or_else(|| WrongUsage("the arguments must be a JSON object".to_owned()))
    }

    fn kind(&self) -> &'static str {
        match (self.resource, self.prompt) {
            (true, _) => "resource",
            (_, true) => "prompt",
            _ => "tool",
        }
    }
}

fn named(authority: &AccessRules, place: usize) -> String {
    match &authority.rules()[place].name {
        name if *name == format!("rule {}", place + 1) => name.clone(),
        name => format!("rule {} ({name})", place + 1),
    }
}

fn verdict(decision: &Decision, authority: &AccessRules, asked: &Explain) -> String {
    let with = if asked.arguments.is_some() { " with these arguments" } else { "" };
    match decision {
        Decision::Allowed(None) => "allowed: there are no rules, so everything is".to_owned(),
        Decision::Allowed(Some(place)) => format!("allowed{with}: {} says so", named(authority, *place)),
        Decision::Denied(Some(place)) => format!("denied{with}: {} says so", named(authority, *place)),
        Decision::Denied(None) => format!("denied{with}: no rule allows it"),
        Decision::NeedsScopes(scopes) => {
            format!("denied{with}, and told (403) that it needs the scope {}", scopes.join(" "))
        }
    }
}

/// The columns of the rules that were looked at.
const fn columns<'a>() -> [Column<EvaluatedRule<'a>>; 6] {
    [
        Column::new("RULE", "rule", |step| (step.place + 1).into()),
        Column::new("EFFECT", "effect", |step| step.rule.effect.to_string().into()),
        Column::new("NAME", "name", |step| step.rule.name.as_str().into()),
        Column::member("matches", |step| step.miss.is_none().into()),
        Column::shown("WHY", |step| why(step).unwrap_or_else(|| "it matches".to_owned()).into()),
        Column::member("why", |step| why(step).into()),
    ]
}

fn why(step: &EvaluatedRule<'_>) -> Option<String> {
    step.miss.as_ref().map(ToString::to_string)
}

fn as_text(
    principal: &Principal,
    asked: &Explain,
    decision: &Decision,
    authority: &AccessRules,
    steps: &[EvaluatedRule<'_>],
) -> String {
    let (kind, name) = (asked.kind(), &asked.tool);
    let mut out = format!("{principal}, the {kind} `{name}`: {}\n", verdict(decision, authority, asked));
    if !steps.is_empty() {
        out.push_str(&format!("{}\n", table::of_rows(&columns(), steps)));
    }
    let by_arguments = matches!(decision, Decision::Allowed(_)) && asked.arguments.is_none();
    if by_arguments
        && steps.iter().any(|step| step.miss != Some(Mismatch::Object) && step.rule.looks_at_arguments())
    {
        out.push_str("Some rules look at arguments; --arguments JSON takes them into account.\n");
    }
    out
}

fn as_json(
    principal: &Principal,
    asked: &Explain,
    decision: &Decision,
    authority: &AccessRules,
    steps: &[EvaluatedRule<'_>],
) -> serde_json::Value {
    let (word, rule, scopes) = match decision {
        Decision::Allowed(place) => ("allowed", *place, None),
        Decision::Denied(place) => ("denied", *place, None),
        Decision::NeedsScopes(scopes) => ("needs-scopes", None, Some(scopes)),
    };
    let steps: Vec<_> = steps.iter().map(|step| table::object(&columns(), step)).collect();
    serde_json::json!({
        "principal": principal.to_string(),
        asked.kind(): asked.tool,
        "decision": word,
        "rule": rule.map(|place| place + 1),
        "effect": rule.map(|place| match authority.rules()[place].effect {
            Effect::Allow => "allow",
            Effect::Deny => "deny",
        }),
        "scopes": scopes,
        "steps": steps,
    })
}
