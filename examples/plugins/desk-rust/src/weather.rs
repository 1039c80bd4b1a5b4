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
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Weather {
    city: String,
    celsius: f64,
    sky: String,
}

pub fn weather(Place { city }: Place) -> Result<ToolResult<Weather>, Error> {
    let service = std::env::var("WEATHER_URL").context("WEATHER_URL in [env] of the manifest")?;
    let weather = now(&service, &city)?;
    let text = format!("{}: {} °C, {}", weather.city, weather.celsius, weather.sky);
    Ok(ToolResult::new().text(text).structured(weather))
}

fn now(service: &str, city: &str) -> Result<Weather, Error> {
    let response = http::Request::get(&format!("{service}/v1/now")).query("city", city).send()?;
    if response.status() != 200 {
        let status = response.status();
        let why = response.text()?;
        return Err(Error::new(format!("the weather service answered {status}: {}", why.trim())));
    }
    Ok(response.json()?)
}

#[cfg(test)]
mod tests {
    use toolyard_plugin::testing;

    use super::*;

    #[test]
    fn the_service_answers() {
        let url = "https://weather.example/v1/now?city=Oslo";
        testing::respond("GET", url, 200, r#"{"city": "Oslo", "celsius": 7.5, "sky": "rain"}"#);
        assert_eq!(now("https://weather.example", "Oslo").expect("weather").celsius, 7.5);
        testing::respond("GET", url, 404, "no such city\n");
        let error = now("https://weather.example", "Oslo").expect_err("no weather");
        assert_eq!(error.to_string(), "the weather service answered 404: no such city");
    }
}
