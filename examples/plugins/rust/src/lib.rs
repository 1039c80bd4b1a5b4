//! Tools for a trip through several places: the shortest order, and its length.
//!
//! `sphere` measures distances and `order` plans. This file declares the tools, asks the user, and describes
//! the results.

mod order;
mod sphere;

use std::collections::HashSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_plugin::serde_json::json;
use toolyard_plugin::{Error, Tool, ToolResult, ask, check_cancelled, plugin, progress};

use crate::order::Trip;
use crate::sphere::{Place, Stop};

/// The quick method compares each stop with each other once.
const MOST_STOPS: usize = 2_000;
/// For more stops, the table of the exact method would not fit into any guest's memory.
const MOST_EXACT: usize = 24;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// The places to visit.
    #[schemars(length(min = 2, max = MOST_STOPS))]
    stops: Vec<Stop>,
    /// The name of the first stop; by default the first in the list.
    start: Option<String>,
    /// The planning method.
    #[serde(default)]
    method: Method,
    /// How the trip ends. If absent, the tool asks the user.
    ending: Option<Ending>,
    /// The number of attempts of the quick method to find a shorter route.
    #[serde(default = "default_rounds")]
    #[schemars(range(min = 0, max = 1_000_000_000_000_000_u64))]
    rounds: u64,
}

fn default_rounds() -> u64 {
    100_000
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Method {
    /// A good order for any number of stops.
    #[default]
    Quick,
    /// The best order, for at most 24 stops.
    Exact,
}

/// Also the form of a question: the user sees the comments on the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Ending {
    /// Back to the start
    RoundTrip,
    /// At the last stop
    OneWay,
}

/// The structured result; its schema is the tool's output schema.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Route {
    /// The legs of the trip, in order.
    legs: Vec<Leg>,
    ending: Ending,
    kilometres: f64,
    /// The kilometres saved, compared with the given order.
    saved: f64,
    method: Method,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Leg {
    from: String,
    to: String,
    kilometres: f64,
}

/// The reasons why there is no route, as sentences that tell the model what to do.
#[derive(Debug)]
enum Fault {
    SameName(String),
    TooManyForExact(usize),
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameName(name) => {
                write!(f, "Two stops are called {name:?}. Give each stop a name of its own.")
            }
            Self::TooManyForExact(stops) => write!(
                f,
                "The exact method plans at most {MOST_EXACT} stops, and these are {stops}. Use the method `quick`."
            ),
        }
    }
}

fn plan_route(plan: Plan) -> Result<ToolResult<Route>, Error> {
    let Plan { mut stops, start, method, ending, rounds } = plan;
    // `?` converts any error to a tool error with its message.
    check_names(&stops)?;
    if let Some(start) = start {
        // Arguments that fit the schema but are invalid: a request error.
        let Some(first) = stops.iter().position(|stop| stop.name == start) else {
            let names: Vec<&str> = stops.iter().map(|stop| stop.name.as_str()).take(20).collect();
            return Err(Error::invalid_params(format!("There is no stop {start:?} to start from."))
                .with_data(json!({ "start": start, "stops": names })));
        };
        stops[..=first].rotate_right(1);
    }
    if method == Method::Exact && stops.len() > MOST_EXACT {
        return Err(Fault::TooManyForExact(stops.len()).into());
    }
    let ending = match ending {
        Some(ending) => ending,
        // Suspends the call until the user answers; as a task, for days if necessary.
        None => ask("ending", "Where does the trip end?")?.accepted()?,
    };

    let places = stops.iter().map(Place::from).collect();
    let trip = Trip { places, is_round: ending == Ending::RoundTrip };
    let given: Vec<usize> = (0..stops.len()).collect();
    let order = match method {
        Method::Quick => trip.quick(rounds, |done| report(done, rounds, "attempts"))?,
        Method::Exact => {
            let sets = 1 << (stops.len() - 1);
            trip.exact(|done| report(done, sets, "combinations"))?
        }
    };

    let kilometres = trip.length(&order);
    let saved = trip.length(&given) - kilometres;
    let mut names: Vec<&str> = order.iter().map(|stop| stops[*stop].name.as_str()).collect();
    if trip.is_round {
        names.push(&stops[0].name);
    }
    let text =
        format!("{}: {kilometres:.1} km, {saved:.1} km less than in the order given.", names.join(" → "));
    let mut way = order;
    way.extend(trip.is_round.then_some(0));
    let leg = |leg: &[usize]| Leg {
        from: stops[leg[0]].name.clone(),
        to: stops[leg[1]].name.clone(),
        kilometres: metres_exact(trip.places[leg[0]].kilometres_to(&trip.places[leg[1]])),
    };
    let legs = way.windows(2).map(leg).collect();
    let (kilometres, saved) = (metres_exact(kilometres), metres_exact(saved));
    Ok(ToolResult::new().text(text).structured(Route { legs, ending, kilometres, saved, method }))
}

fn check_names(stops: &[Stop]) -> Result<(), Fault> {
    let mut names = HashSet::new();
    match stops.iter().find(|stop| !names.insert(stop.name.as_str())) {
        Some(stop) => Err(Fault::SameName(stop.name.clone())),
        None => Ok(()),
    }
}

/// Reports progress, and stops the plan when the call is cancelled.
fn report(done: u64, of: u64, what: &str) -> Result<(), Error> {
    progress(done as f64, of as f64, &format!("{done} of {of} {what}"));
    check_cancelled()
}

fn metres_exact(kilometres: f64) -> f64 {
    (kilometres * 1_000.0).round() / 1_000.0
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Measure {
    /// The places, in the order of the trip.
    #[schemars(length(min = 1))]
    stops: Vec<Stop>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Measured {
    stops: usize,
    kilometres: f64,
    /// The longest leg; absent if there is only one stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<Leg>,
}

/// Without a text of its own, a structured result is also shown as JSON text.
fn measure_route(Measure { stops }: Measure) -> Result<Measured, Error> {
    let mut kilometres = 0.0;
    let mut longest: Option<(f64, &[Stop])> = None;
    for leg in stops.windows(2) {
        let length = Place::from(&leg[0]).kilometres_to(&Place::from(&leg[1]));
        kilometres += length;
        if longest.is_none_or(|(longest, _)| length > longest) {
            longest = Some((length, leg));
        }
    }
    let longest = longest.map(|(length, leg)| Leg {
        from: leg[0].name.clone(),
        to: leg[1].name.clone(),
        kilometres: metres_exact(length),
    });
    Ok(Measured { stops: stops.len(), kilometres: metres_exact(kilometres), longest })
}

plugin! {
    tools: [
        Tool::new("plan_route", plan_route)
            .title("Plan a route")
            .description(
                "Finds a short order in which to visit places given by latitude and longitude, as the crow flies: \
                 a good one for up to 2,000 stops, or the shortest there is for up to 24.",
            )
            .read_only(),
        Tool::new("measure_route", measure_route)
            .title("Measure a route")
            .description("Says how long a trip through these places is in the order given, as the crow flies.")
            .pure(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolyard_plugin::testing::{self, Heard};

    use super::*;

    fn stop(name: &str, longitude: f64) -> Stop {
        Stop { name: name.to_owned(), latitude: 0.0, longitude }
    }

    fn plan(stops: Vec<Stop>) -> Plan {
        Plan { stops, start: None, method: Method::Quick, ending: Some(Ending::OneWay), rounds: 1_000 }
    }

    fn zigzag() -> Vec<Stop> {
        vec![stop("a", 0.0), stop("d", 3.0), stop("b", 1.0), stop("e", 4.0), stop("c", 2.0)]
    }

    fn names(result: &ToolResult<Route>) -> Vec<String> {
        result.value().legs.iter().map(|leg| leg.to.clone()).collect()
    }

    #[test]
    fn both_methods_find_the_straight_way_and_say_how_far_they_are() {
        for method in [Method::Quick, Method::Exact] {
            let result = plan_route(Plan { method, ..plan(zigzag()) }).expect("planned");
            assert_eq!(names(&result), ["b", "c", "d", "e"]);
            assert_eq!(result.value().kilometres, 444.780);
            assert!(matches!(testing::heard()[..], [Heard::Progress { .. }, ..]));
        }
    }

    #[test]
    fn the_user_is_asked_how_it_ends() {
        testing::answer("ending", json!({ "action": "accept", "content": { "answer": "round-trip" } }));
        let result = plan_route(Plan { ending: None, ..plan(zigzag()) }).expect("planned");
        assert_eq!(
            (result.value().ending, names(&result).last().map(String::as_str)),
            (Ending::RoundTrip, Some("a"))
        );
        testing::answer("ending", json!({ "action": "decline" }));
        let refused = plan_route(Plan { ending: None, ..plan(zigzag()) }).expect_err("no answer");
        assert_eq!(refused.to_string(), "The user declined to answer.");
    }

    #[test]
    fn what_cannot_be_planned_is_said() {
        let twice = plan_route(plan(vec![stop("a", 0.0), stop("a", 1.0)])).expect_err("two of a name");
        assert!(twice.to_string().starts_with("Two stops are called \"a\"."), "{twice}");
        let many = (0..25).map(|n| stop(&n.to_string(), f64::from(n))).collect();
        let many = plan_route(Plan { method: Method::Exact, ..plan(many) }).expect_err("too many");
        assert!(many.to_string().contains("at most 24 stops"), "{many}");
        let nowhere =
            plan_route(Plan { start: Some("x".to_owned()), ..plan(zigzag()) }).expect_err("no such stop");
        assert_eq!(nowhere.to_string(), "There is no stop \"x\" to start from. (-32602)");
    }

    #[test]
    fn a_trip_starts_where_it_is_told_and_stops_when_it_is_cancelled() {
        let result = plan_route(Plan { start: Some("e".to_owned()), ..plan(zigzag()) }).expect("planned");
        assert_eq!(names(&result), ["d", "c", "b", "a"]);
        testing::cancel();
        assert!(plan_route(Plan { rounds: u64::MAX, ..plan(zigzag()) }).is_err());
    }

    #[test]
    fn a_trip_is_measured() {
        let measured = measure_route(Measure { stops: zigzag() }).expect("measured");
        assert_eq!((measured.stops, measured.kilometres), (5, 1_111.951));
        assert_eq!(measured.longest.map(|leg| leg.kilometres), Some(333.585));
        assert!(
            measure_route(Measure { stops: vec![stop("a", 0.0)] }).is_ok_and(|one| one.longest.is_none())
        );
    }
}
