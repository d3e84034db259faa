//! Each rule is there for a world that goes wrong without it.

use std::time::Duration;

use super::{CALM, Setting, look_at, only_seed, tell_of};
use crate::domain::cluster::Timings;
use crate::store::simulated::LeftOut;

/// In how many worlds a rule may be missed by nobody.
const WORLDS: u64 = 40;

/// Whether something goes wrong in one of a few worlds.
fn goes_red(setting: Setting) -> bool {
    match only_seed() {
        Some(seed) => !tell_of(seed, setting).is_empty(),
        None => (0..WORLDS).any(|seed| !look_at(seed, setting).is_empty()),
    }
}

fn without(rule: LeftOut) -> Setting {
    Setting { left_out: Some(rule), ..Setting::USUAL }
}

#[test]
fn a_commit_that_compares_no_versions() {
    assert!(goes_red(without(LeftOut::Version)));
}

#[test]
fn a_commit_that_compares_no_tokens_where_the_database_fails_over() {
    assert!(goes_red(Setting { fails_over: true, ..without(LeftOut::Token) }));
}

#[test]
fn a_burial_after_which_the_dead_still_commit() {
    assert!(goes_red(without(LeftOut::Burial)));
}

#[test]
fn a_server_that_acts_however_long_it_has_not_reached_the_database() {
    let timings = Timings { lease: Duration::from_secs(3600), ..Timings::USUAL };
    assert!(goes_red(Setting { timings, ..Setting::USUAL }));
}

#[test]
fn rings_without_looks() {
    assert!(goes_red(without(LeftOut::Looks)));
}

#[test]
fn times_that_are_the_servers_own() {
    assert!(goes_red(Setting { weather: CALM, ..without(LeftOut::Latest) }));
}

#[test]
fn a_lane_of_notices_that_nothing_guards() {
    assert!(goes_red(without(LeftOut::Lanes)));
}
