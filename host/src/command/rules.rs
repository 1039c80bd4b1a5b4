//! `toolyard rules`: explains the access rules of the configuration.

use super::table::{self, Column};
use super::{WrongUsage, configure};
use crate::config::{Config, Flags};
use clap::{Args, Subcommand};
use std::collections::BTreeSet;
use std::process::ExitCode;
use toolyard_cli::output;
use toolyard_dispatch::rules::{AccessRules, Decision, EvaluatedRule, Mismatch, Object};
use toolyard_dispatch::{DataOwner, Principal, RawJson, Subject};

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
    let rules = &AccessRules::new(config.rules.clone())?;
    let principal = &asked.principal(&config)?;
    let arguments = asked.arguments()?;
    let (kind, object) = match (asked.resource, asked.prompt) {
        (true, _) => ("resource", Object::Resource(&asked.tool)),
        (_, true) => ("prompt", Object::Prompt(&asked.tool)),
        _ => ("tool", Object::Tool(&asked.tool)),
    };
    let decision = match &arguments {
        Some(arguments) => rules.allows(principal, object, arguments),
        None => rules.shows(principal, object),
    };
    let steps = rules.explain(principal, object, arguments.as_ref());
    let explanation = Explanation { principal, kind, asked, decision, rules, steps };
    match asked.json {
        true => output::json(explanation.to_json()),
        false => output::say_text(&explanation.to_text()),
    }
    Ok(match explanation.decision {
        Decision::Allowed(_) => ExitCode::SUCCESS,
        Decision::Denied(_) | Decision::NeedsScopes(_) => ExitCode::from(DENIED),
    })
}

impl Explain {
    fn principal(&self, config: &Config) -> Result<Principal, WrongUsage> {
        let name = &self.principal;
        let (issuer, subject) = match DataOwner::parse(name) {
            Some(DataOwner::Anonymous) => return Ok(Principal::Anonymous),
            Some(DataOwner::Local) => return Ok(Principal::Local),
            Some(DataOwner::Subject { issuer, subject }) => (issuer, subject),
            None => {
                return Err(WrongUsage(format!(
                    "`{name}` is not a principal: expected anonymous, local, token:NAME or ISSUER#SUBJECT"
                )));
            }
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
        let client = self.client.clone();
        Ok(Principal::Subject(Subject { client, scopes, claims, ..Subject::named(issuer, subject) }))
    }

    fn arguments(&self) -> Result<Option<RawJson>, WrongUsage> {
        let Some(text) = &self.arguments else { return Ok(None) };
        let arguments = RawJson::parse(text.clone()).ok().filter(RawJson::is_object);
        arguments.map(Some).ok_or_else(|| WrongUsage("the arguments must be a JSON object".to_owned()))
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

/// A decision, and the rules that were looked at.
struct Explanation<'a> {
    principal: &'a Principal,
    /// The kind of the object.
    kind: &'static str,
    asked: &'a Explain,
    decision: Decision,
    rules: &'a AccessRules,
    steps: Vec<EvaluatedRule<'a>>,
}

impl Explanation<'_> {
    fn rule_name(&self, place: usize) -> String {
        match &self.rules.rules()[place].name {
            name if *name == format!("rule {}", place + 1) => name.clone(),
            name => format!("rule {} ({name})", place + 1),
        }
    }

    fn verdict(&self) -> String {
        let with = if self.asked.arguments.is_some() { " with these arguments" } else { "" };
        match &self.decision {
            Decision::Allowed(None) => "allowed: there are no rules, so everything is".to_owned(),
            Decision::Allowed(Some(place)) => format!("allowed{with}: {} says so", self.rule_name(*place)),
            Decision::Denied(Some(place)) => format!("denied{with}: {} says so", self.rule_name(*place)),
            Decision::Denied(None) => format!("denied{with}: no rule allows it"),
            Decision::NeedsScopes(scopes) => {
                format!("denied{with}, and told (403) that it needs the scope {}", scopes.join(" "))
            }
        }
    }

    fn to_text(&self) -> String {
        let Self { principal, kind, asked, decision, steps, .. } = self;
        let mut out = format!("{principal}, the {kind} `{}`: {}\n", asked.tool, self.verdict());
        if !steps.is_empty() {
            out.push_str(&format!("{}\n", table::of_rows(&columns(), steps)));
        }
        let looks_at_arguments =
            |step: &EvaluatedRule<'_>| step.miss != Some(Mismatch::Object) && step.rule.looks_at_arguments();
        if matches!(decision, Decision::Allowed(_))
            && asked.arguments.is_none()
            && steps.iter().any(looks_at_arguments)
        {
            out.push_str("Some rules look at arguments; --arguments JSON takes them into account.\n");
        }
        out
    }

    fn to_json(&self) -> serde_json::Value {
        let (word, rule, scopes) = match &self.decision {
            Decision::Allowed(place) => ("allowed", *place, None),
            Decision::Denied(place) => ("denied", *place, None),
            Decision::NeedsScopes(scopes) => ("needs-scopes", None, Some(scopes)),
        };
        serde_json::json!({
            "principal": self.principal.to_string(),
            self.kind: self.asked.tool,
            "decision": word,
            "rule": rule.map(|place| place + 1),
            "effect": rule.map(|place| self.rules.rules()[place].effect.to_string()),
            "scopes": scopes,
            "steps": self.steps.iter().map(|step| table::object(&columns(), step)).collect::<Vec<_>>(),
        })
    }
}
