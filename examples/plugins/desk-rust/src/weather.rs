//! Calls an API. The host adds the key to the request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_plugin::{Context, Error, ToolResult, http};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The name of a city, such as Oslo.
    #[schemars(length(min = 1))]
    city: String,
}

/// The answer of the service, and the structured result.
#[derive(Deserialize, Serialize, JsonSchema)]
pub struct Weather {
    city: String,
    celsius: f64,
    sky: String,
}

pub fn weather(Place { city }: Place) -> Result<ToolResult<Weather>, Error> {
    let service = std::env::var("WEATHER_URL").context("WEATHER_URL in [env] of the manifest")?;
    let response = http::Request::get(&format!("{service}/v1/now")).query("city", &city).send()?;
    if response.status() != 200 {
        let status = response.status();
        let why = response.text()?;
        return Err(Error::new(format!("the weather service answered {status}: {}", why.trim())));
    }
    let weather: Weather = response.json()?;
    let text = format!("{}: {} °C, {}", weather.city, weather.celsius, weather.sky);
    Ok(ToolResult::new().text(text).structured(weather))
}

// `env::set_var` is unsafe in tests that run at once, so these tests need the variable's absence.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_must_name_the_service() {
        let error = weather(Place { city: "Oslo".to_owned() }).expect_err("no service");
        assert!(error.to_string().starts_with("WEATHER_URL in [env] of the manifest"), "{error}");
    }
}
