//! Resources, prompts and completion.

use fixtures::declaration::{argument, prompt};
use fixtures::{arguments, result};
use serde_json::{Value, json};
use toolyard_plugin::completion::{Completions, Reference};
use toolyard_plugin::prompts::{Prompt, PromptResult};
use toolyard_plugin::raw::{CallError, RpcError};
use toolyard_plugin::resources::{Body, Contents, Entry, Page, Template};

use crate::questions::{self, Asking, field, form};
use crate::tools::embedded;
use crate::{Conformance, media};

const TEMPLATE: &str = "test://template/{id}/data";

impl toolyard_plugin::resources::Guest for Conformance {
    fn list_resources(_cursor: Option<String>) -> Result<Page, RpcError> {
        let entry = |uri: &str, name: &str, mime_type: &str| Entry {
            uri: uri.to_owned(),
            name: name.to_owned(),
            more: json!({ "description": "For the conformance suites.", "mimeType": mime_type }).to_string(),
        };
        let entries = vec![
            entry("test://static-text", "static-text", "text/plain"),
            entry("test://static-binary", "static-binary", "image/png"),
            entry("test://watched-resource", "watched-resource", "text/plain"),
        ];
        Ok(Page { entries, next: None })
    }

    fn list_templates() -> Result<Vec<Template>, RpcError> {
        let more = json!({ "description": "Data by its id.", "mimeType": "application/json" }).to_string();
        Ok(vec![Template { uri_template: TEMPLATE.to_owned(), name: "template".to_owned(), more }])
    }

    fn read(uri: String) -> Result<Option<Vec<Contents>>, RpcError> {
        let text = |text: &str| Body::Text(text.to_owned());
        let (mime_type, body) = match uri.as_str() {
            "test://static-text" => ("text/plain", text("This is the content of the static text resource.")),
            "test://static-binary" => ("image/png", Body::Blob(media::PNG.to_vec())),
            "test://watched-resource" => ("text/plain", text("This is the content of the watched resource.")),
            uri => match id(uri) {
                Some(id) => ("application/json", Body::Text(data(id))),
                None => return Ok(None),
            },
        };
        Ok(Some(vec![Contents { uri, mime_type: Some(mime_type.to_owned()), body, meta: None }]))
    }
}

/// The variable of the template.
fn id(uri: &str) -> Option<&str> {
    let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

fn data(id: &str) -> String {
    // Compared as text, so the order matters.
    format!(r#"{{"id":{},"templateTest":true,"data":{}}}"#, json!(id), json!(format!("Data for ID: {id}")))
}

impl toolyard_plugin::prompts::Guest for Conformance {
    fn list_prompts() -> Vec<Prompt> {
        let plain = |name: &str, description: &str, arguments| prompt(name, name, description, arguments);
        vec![
            plain("test_simple_prompt", "A prompt without arguments.", vec![]),
            plain(
                "test_prompt_with_arguments",
                "A prompt of two arguments.",
                vec![argument("arg1", "The first."), argument("arg2", "The second.")],
            ),
            plain(
                "test_prompt_with_embedded_resource",
                "A prompt with a resource in it.",
                vec![argument("resourceUri", "The URI of the resource.")],
            ),
            plain("test_prompt_with_image", "A prompt with an image in it.", vec![]),
            plain("test_input_required_result_prompt", "A prompt that asks the user first.", vec![]),
        ]
    }

    fn get(name: String, given: String) -> Result<PromptResult, CallError> {
        let given: Value = arguments::read(&given)?;
        let argument = |name: &str| given[name].as_str().unwrap_or_default().to_owned();
        let contents = match name.as_str() {
            "test_simple_prompt" => vec![result::block("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => {
                let (arg1, arg2) = (argument("arg1"), argument("arg2"));
                vec![result::block(format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]
            }
            "test_prompt_with_embedded_resource" => vec![
                embedded(&argument("resourceUri"), "text/plain", "Embedded resource content for testing."),
                result::block("Please process the embedded resource above."),
            ],
            "test_prompt_with_image" => {
                vec![media::image(), result::block("Please analyze the image above.")]
            }
            "test_input_required_result_prompt" => {
                let properties = json!({ "context": { "type": "string" } });
                let message = "What context should the prompt use?";
                let question = form("user_context", message, properties, &["context"]);
                let [answer] = questions::ask([question]).map_err(Asking::error)?;
                vec![result::block(format!("The context is: {}", field(&answer, "context")))]
            }
            _ => {
                return Err(CallError::Rpc(arguments::invalid_params(format!("There is no prompt {name}."))));
            }
        };
        let messages = contents.into_iter().map(result::from_user).collect();
        Ok(PromptResult { description: None, messages })
    }
}

impl toolyard_plugin::completion::Guest for Conformance {
    fn complete(
        reference: Reference,
        name: String,
        value: String,
        _context: String,
    ) -> Result<Completions, RpcError> {
        let values: &[&str] = match (&reference, name.as_str()) {
            (Reference::Prompt(prompt), "arg1" | "arg2") if prompt == "test_prompt_with_arguments" => {
                &["hello", "test", "test1", "test2", "testing", "world"]
            }
            (Reference::Prompt(prompt), "resourceUri") if prompt == "test_prompt_with_embedded_resource" => {
                &["test://static-binary", "test://static-text"]
            }
            (Reference::Template(template), "id") if template == TEMPLATE => &["1", "12", "123", "456"],
            _ => return Err(arguments::invalid_params("There is nothing of that name to complete.")),
        };
        let values: Vec<String> = values
            .iter()
            .filter(|known| known.starts_with(&value))
            .map(|known| (*known).to_owned())
            .collect();
        Ok(Completions { total: Some(values.len() as u32), values, has_more: false })
    }
}
