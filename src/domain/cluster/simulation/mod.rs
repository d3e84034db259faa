//! Several servers, one store, and a network that loses, delays and holds what it is given: whoever is called dead acts
//! no more, whoever is gone is called dead, and nobody else.
//!
//! Everything happens in one queue of events in true time, which nobody in the simulation knows; each server has a clock of
//! its own that starts anywhere and runs too fast or too slowly. A seed decides over everything, and is named where a run
//! fails. `HITL_SIMULATED_SEEDS=1000000` runs as many.

mod properties;
mod world;

use crate::domain::seeds::Random;
