//! What was counted, for whoever writes it down: names, labels and values, in no format.

use crate::engine::telling::histogram::Counted;

/// The figures of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// What they are called; the unit, and `_total` where they only grow, are at its end.
    pub name: &'static str,
    /// One line for whoever reads them.
    pub help: &'static str,
    /// The figures.
    pub figures: Figures,
}

/// The figures of a family, by their kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Figures {
    /// How much there is.
    Gauge(Vec<Labelled<u64>>),
    /// How often something happened since the start.
    Counter(Vec<Labelled<u64>>),
    /// How long something took since the start.
    Histogram(Vec<Labelled<Counted>>),
}

/// A value, and what tells it from others of the family: names and values, in the order in which they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled<T> {
    /// Without any where the family has one value.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: T,
}

impl<T> Labelled<T> {
    /// A value with one label.
    pub fn one(label: &'static str, of: &str, value: T) -> Self {
        Self { labels: vec![(label, of.to_owned())], value }
    }
}

impl Family {
    /// How much there is of one thing.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, figures: Figures::Gauge(alone(value)) }
    }

    /// How often one thing happened.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, figures: Figures::Counter(alone(value)) }
    }

    /// How long one thing took.
    pub fn histogram(name: &'static str, help: &'static str, value: Counted) -> Self {
        Self { name, help, figures: Figures::Histogram(alone(value)) }
    }
}

fn alone<T>(value: T) -> Vec<Labelled<T>> {
    vec![Labelled { labels: Vec::new(), value }]
}
