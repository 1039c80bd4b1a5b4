//! Places on the earth, as a sphere, and the distances between them.

use schemars::JsonSchema;
use serde::Deserialize;

/// The mean radius of the earth in kilometres.
const RADIUS: f64 = 6_371.008_8;

/// A place to stop at.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The name of the stop; no two stops may have the same.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Degrees north of the equator.
    #[schemars(range(min = -90, max = 90))]
    pub latitude: f64,
    /// Degrees east of Greenwich.
    #[schemars(range(min = -180, max = 180))]
    pub longitude: f64,
}

/// A place as a unit vector from the centre of the earth, which makes distances quick to compute.
#[derive(Debug, Clone, Copy)]
pub struct Place([f64; 3]);

impl From<&Stop> for Place {
    fn from(stop: &Stop) -> Self {
        let (latitude, longitude) = (stop.latitude.to_radians(), stop.longitude.to_radians());
        let (north, east) = (latitude.sin(), longitude.sin());
        Self([latitude.cos() * longitude.cos(), latitude.cos() * east, north])
    }
}

impl Place {
    /// The distance to another place in kilometres, along the surface.
    pub fn kilometres_to(&self, other: &Self) -> f64 {
        let squares = self.0.iter().zip(other.0).map(|(a, b)| (a - b) * (a - b));
        // Half the chord is the sine of half the angle. Unlike the cosine, it keeps its precision for places
        // that are close together.
        let half_chord = (squares.sum::<f64>().sqrt() / 2.0).min(1.0);
        2.0 * RADIUS * half_chord.asin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(latitude: f64, longitude: f64) -> Place {
        Place::from(&Stop { name: String::new(), latitude, longitude })
    }

    #[test]
    fn distances_are_those_of_the_map() {
        let cases = [
            (place(0.0, 0.0), place(0.0, 0.0), 0.0),
            (place(0.0, 0.0), place(0.0, 90.0), 10_007.557),
            (place(90.0, 0.0), place(-90.0, 0.0), 20_015.115),
            // Vienna and Bratislava.
            (place(48.208_3, 16.373_1), place(48.148_6, 17.107_7), 54.877),
            (place(0.0, 0.0), place(0.0, 0.000_01), 0.001),
        ];
        for (one, other, kilometres) in cases {
            let found = one.kilometres_to(&other);
            assert!((found - kilometres).abs() < 0.2, "{found} is not {kilometres}");
        }
    }
}
