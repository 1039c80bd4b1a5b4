//! The tool `{{name}}`: greets a person.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_plugin::{Error, Tool, ToolResult, ask, check_cancelled, plugin, progress, sleep};

/// The arguments; doc comments on the fields are for the model.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Greet {
    /// The name to greet. If absent, the tool asks the user.
    #[schemars(length(min = 1))]
    name: Option<String>,
}

/// The structured result.
#[derive(Debug, Serialize, JsonSchema)]
struct Greeting {
    greeting: String,
}

/// The form that asks the user.
#[derive(Deserialize, JsonSchema)]
struct Whom {
    #[schemars(title = "Name")]
    name: String,
}

fn greet(Greet { name }: Greet) -> Result<ToolResult<Greeting>, Error> {
    let name = match name {
        Some(name) => name,
        None => ask::<Whom>("name", "Whom shall I greet?")?.accepted()?.name,
    };
    for step in 1..=3 {
        sleep(Duration::from_millis(20)); // the real work goes here
        check_cancelled()?;
        progress(f64::from(step), 3.0, "thinking of something nice");
    }
    let greeting = format!("Hello, {name}!");
    Ok(ToolResult::new().text(&greeting).structured(Greeting { greeting }))
}

plugin! {
    tools: [
        Tool::new("{{name}}", greet)
            .title("Greet")
            .description("Greets a person; asks the user for the name if it is absent.")
            .read_only(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolyard_plugin::testing;

    use super::*;

    #[test]
    fn the_user_is_asked_for_the_name() {
        testing::answer("name", json!({ "action": "accept", "content": { "name": "Ada" } }));
        let result = greet(Greet { name: None }).expect("a greeting");
        assert_eq!(result.value().greeting, "Hello, Ada!");
    }
}
