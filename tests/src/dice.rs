//! Pseudorandom numbers, the same for the same seed (splitmix64). The simulation includes this file too.

/// A pseudorandom number generator; the field is its state. Recorded seeds and mutations depend on its
/// sequence.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// The numbers of this seed for one purpose, independent of those for another purpose.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = Self(seed ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        dice.roll();
        Self(dice.roll())
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.roll() % sides
    }

    /// A number from `least` to `most`.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True with this chance in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of these values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
