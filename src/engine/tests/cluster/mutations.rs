//! Each rule is there for a world that goes wrong without it. Not where every commit is refused once (`make test-rust`): there it
//! runs again on what is there by then, and the versions tell as well.

use std::time::Duration;

use super::{Setting, look_at, only_seed, tell_of};
use crate::domain::cluster::Timings;
use crate::store::simulated::LeftOut;

/// In how many worlds a rule may be missed by nobody.
const WORLDS: u64 = 40;

/// Whether something goes wrong in one of a few worlds, and nothing in the same one `with` the rule.
fn goes_red(without: Setting, with: Setting) -> bool {
    if let Some(seed) = only_seed() {
        return !tell_of(seed, without).is_empty();
    }
    let red = (0..WORLDS).find(|seed| !look_at(*seed, without).is_empty());
    red.is_some_and(|seed| look_at(seed, with).is_empty())
}

fn without(rule: LeftOut) -> Setting {
    Setting { left_out: Some(rule), ..Setting::USUAL }
}

#[test]
fn a_commit_that_compares_no_versions() {
    assert!(goes_red(without(LeftOut::Version), Setting::USUAL));
}

#[test]
fn a_server_that_acts_however_long_it_has_not_reached_the_database() {
    let timings = Timings { lease: Duration::from_secs(3600), ..Timings::USUAL };
    // Whoever was taken for dead in the middle of something long is still at it.
    let long = Setting { is_long: true, ..Setting::USUAL };
    assert!(goes_red(Setting { timings, ..long }, long));
}

#[test]
fn rings_without_looks() {
    assert!(goes_red(without(LeftOut::Looks), Setting::USUAL));
}

#[test]
fn a_commit_that_does_not_look_whether_its_server_is_still_there() {
    assert!(goes_red(without(LeftOut::Rows), Setting::USUAL));
}

#[test]
fn a_failover_of_which_no_server_hears() {
    let failover = Setting { fails_over: true, ..Setting::USUAL };
    assert!(goes_red(Setting { left_out: Some(LeftOut::Promotions), ..failover }, failover));
}

#[test]
fn times_that_are_the_servers_own() {
    assert!(goes_red(without(LeftOut::Latest), Setting::USUAL));
}
