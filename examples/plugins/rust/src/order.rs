//! Finds a short order of stops that begins with the first.

use crate::sphere::Place;

/// The number of rounds, or sets of stops, between two reports.
const STEP: u64 = 1 << 14;

/// A trip to plan.
pub struct Trip {
    pub places: Vec<Place>,
    /// Whether the trip ends where it begins.
    pub is_round: bool,
}

impl Trip {
    fn leg(&self, from: usize, to: usize) -> f64 {
        self.places[from].kilometres_to(&self.places[to])
    }

    /// The length of the leg from the last stop back to the first; 0 if the trip is one-way.
    fn home(&self, last: usize) -> f64 {
        if self.is_round { self.leg(last, 0) } else { 0.0 }
    }

    /// The length of an order in kilometres.
    pub fn length(&self, order: &[usize]) -> f64 {
        let legs = order.windows(2).map(|leg| self.leg(leg[0], leg[1]));
        legs.sum::<f64>() + order.last().map_or(0.0, |last| self.home(*last))
    }

    /// Finds a short order quickly: goes from each stop to the nearest remaining one, then tries `rounds`
    /// times to shorten the route by reversing a part of it. `report` receives the number of rounds done, and
    /// stops the search with an error.
    pub fn quick<E>(
        &self,
        rounds: u64,
        mut report: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Vec<usize>, E> {
        let mut order = self.nearest_neighbours();
        let stops = order.len() as u64;
        let mut dice = Dice(0x2545_F491_4F6C_DD1D);
        for round in 0..rounds {
            if round % STEP == 0 {
                report(round)?;
            }
            if stops < 3 {
                break;
            }
            // The first stop keeps its place.
            let (one, other) = (1 + dice.below(stops - 1) as usize, 1 + dice.below(stops - 1) as usize);
            let (from, to) = (one.min(other), one.max(other));
            let after = order.get(to + 1).copied();
            let end = |last: usize| after.map_or_else(|| self.home(last), |next| self.leg(last, next));
            let before = order[from - 1];
            let now = self.leg(before, order[from]) + end(order[to]);
            let then = self.leg(before, order[to]) + end(order[from]);
            if then + 1e-9 < now {
                order[from..=to].reverse();
            }
        }
        report(rounds)?;
        Ok(order)
    }

    fn nearest_neighbours(&self) -> Vec<usize> {
        let mut left: Vec<usize> = (1..self.places.len()).collect();
        let mut order = vec![0];
        let mut here = 0;
        while let Some(nearest) =
            (0..left.len()).min_by(|a, b| self.leg(here, left[*a]).total_cmp(&self.leg(here, left[*b])))
        {
            here = left.swap_remove(nearest);
            order.push(here);
        }
        order
    }

    /// Finds the shortest order (Held and Karp): for each set of stops and each possible last stop, the
    /// shortest way through the set. Each further stop doubles the table.
    pub fn exact<E>(&self, mut report: impl FnMut(u64) -> Result<(), E>) -> Result<Vec<usize>, E> {
        // The sets do not contain the first stop.
        let stops = self.places.len() - 1;
        let sets = 1_usize << stops;
        let mut table = vec![f32::INFINITY; sets * stops];
        for set in 1..sets {
            if set as u64 % STEP == 0 {
                report(set as u64)?;
            }
            for last in (0..stops).filter(|last| set & (1 << last) != 0) {
                let before = set & !(1 << last);
                let shortest = if before == 0 {
                    self.leg(0, last + 1)
                } else {
                    let ways = (0..stops).filter(|it| before & (1 << it) != 0);
                    ways.map(|it| f64::from(table[before * stops + it]) + self.leg(it + 1, last + 1))
                        .fold(f64::INFINITY, f64::min)
                };
                table[set * stops + last] = shortest as f32;
            }
        }
        // Backwards: the last stop, the one before it, and so on.
        let mut order = Vec::with_capacity(stops + 1);
        let mut set = sets - 1;
        let mut after: Option<usize> = None;
        while set != 0 {
            let on = |it: usize| after.map_or_else(|| self.home(it + 1), |after| self.leg(it + 1, after + 1));
            let whole = |it: usize| f64::from(table[set * stops + it]) + on(it);
            let members = (0..stops).filter(|it| set & (1 << it) != 0);
            let Some(last) = members.min_by(|a, b| whole(*a).total_cmp(&whole(*b))) else { break };
            order.push(last + 1);
            set &= !(1 << last);
            after = Some(last);
        }
        order.push(0);
        order.reverse();
        report(sets as u64)?;
        Ok(order)
    }
}

/// Pseudo-random numbers, the same in each call, so that plans are reproducible.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
