//! Statistics of the numbers in a column.

/// The statistics of a set of numbers.
#[derive(Debug, PartialEq)]
pub struct Figures {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// The sample standard deviation; absent for fewer than two values.
    pub standard_deviation: Option<f64>,
    /// The first quartile, the median and the third quartile.
    pub quartiles: [f64; 3],
}

/// Computes the statistics; `None` without numbers. All numbers are finite.
pub fn figures(mut numbers: Vec<f64>) -> Option<Figures> {
    numbers.sort_unstable_by(f64::total_cmp);
    let (&min, &max) = (numbers.first()?, numbers.last()?);
    let (mean, squares) = mean_and_squares(&numbers);
    let standard_deviation = (numbers.len() > 1).then(|| (squares / (numbers.len() - 1) as f64).sqrt());
    let quartiles = [0.25, 0.5, 0.75].map(|part| quantile(&numbers, part));
    Some(Figures { min, max, mean, standard_deviation, quartiles })
}

/// The mean and the sum of squared distances from it, by Welford's method. Summing squares first would lose
/// all precision for large numbers that lie close together.
fn mean_and_squares(numbers: &[f64]) -> (f64, f64) {
    let mut mean = 0.0;
    let mut squares = 0.0;
    for (index, number) in numbers.iter().enumerate() {
        let distance = number - mean;
        mean += distance / (index + 1) as f64;
        squares += distance * (number - mean);
    }
    (mean, squares)
}

/// Interpolates linearly between the two nearest values, as spreadsheets and NumPy do.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let position = part * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn nothing_has_no_figures_and_one_number_has_no_spread() {
        assert_eq!(figures(Vec::new()), None);
        let one = figures(vec![3.0]).expect("there is a number");
        assert_eq!((one.min, one.max, one.mean, one.standard_deviation), (3.0, 3.0, 3.0, None));
        assert_eq!(one.quartiles, [3.0; 3]);
    }

    #[test]
    fn known_figures() {
        let figures = figures(vec![9.0, 2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0]).expect("there are numbers");
        assert_eq!((figures.min, figures.max), (2.0, 9.0));
        assert!(close(figures.mean, 5.0));
        assert!(close(figures.standard_deviation.expect("eight values"), (32.0_f64 / 7.0).sqrt()));
        assert_eq!(figures.quartiles, [4.0, 4.5, 5.5]);
    }

    #[test]
    fn large_numbers_close_together_keep_their_spread() {
        let figures = figures(vec![1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]).expect("there are numbers");
        assert!(close(figures.standard_deviation.expect("four values"), 30.0_f64.sqrt()));
    }
}
