//! Each rule is there for a world that goes wrong without it. Not where every commit is refused once (`make test-rust`): there it
//! runs again on what is there by then, and the versions tell as well.

use std::time::Duration;

use super::{Setting, look_at, tell_of};
use crate::domain::cluster::Timings;
use crate::domain::seeds;
use crate::faults::Rule;
use crate::store::simulated::network::Weather;
use crate::store::simulated::{LeftOut, apart};

/// In how many worlds a rule may be missed by nobody.
const WORLDS: u64 = 200;

/// Something goes wrong in one of a few worlds, and nothing in the same one `with` the rule.
fn goes_red(test: &str, without: Setting, with: Setting) {
    apart::run(&format!("engine::tests::cluster::mutations::{test}"), "", |_| {
        if let Some(seed) = seeds::only() {
            let (_, wrong) = apart::each([seed], |seed| tell_of(seed, without)).next().unwrap();
            return assert!(!wrong.is_empty());
        }
        let red = apart::each(0..WORLDS, |seed| look_at(seed, without)).find(|(_, wrong)| !wrong.is_empty());
        let (seed, _) = red.expect("nobody misses it");
        let (_, wrong) = apart::each([seed], |seed| look_at(seed, with)).next().unwrap();
        assert!(wrong.is_empty(), "seed {seed}, with the rule: {wrong:#?}");
    });
}

fn without(rule: LeftOut) -> Setting {
    Setting { left_out: Some(rule), ..Setting::USUAL }
}

#[test]
fn a_commit_that_compares_no_versions() {
    goes_red("a_commit_that_compares_no_versions", without(LeftOut::Version), Setting::USUAL);
}

#[test]
fn a_server_that_acts_however_long_it_has_not_reached_the_database() {
    let timings = Timings { lease: Duration::from_secs(3600), ..Timings::USUAL };
    // Whoever was taken for dead in the middle of something long is still at it.
    let long = Setting { is_long: true, ..Setting::USUAL };
    goes_red("a_server_that_acts_however_long_it_has_not_reached_the_database", Setting { timings, ..long }, long);
}

#[test]
fn a_word_that_is_stored_after_what_nobody_here_has_read() {
    goes_red(
        "a_word_that_is_stored_after_what_nobody_here_has_read",
        Setting { without: Some(Rule::Earlier), ..Setting::USUAL },
        Setting::USUAL,
    );
}

#[test]
fn rings_without_looks() {
    goes_red("rings_without_looks", without(LeftOut::Looks), Setting::USUAL);
}

#[test]
fn a_commit_that_does_not_look_whether_its_server_is_still_there() {
    // More is on its way when a server is stopped.
    let slow = Setting { weather: Weather { slow_ms: 400, late: 25, ..Setting::USUAL.weather }, ..Setting::USUAL };
    goes_red(
        "a_commit_that_does_not_look_whether_its_server_is_still_there",
        Setting { left_out: Some(LeftOut::Rows), ..slow },
        slow,
    );
}

#[test]
fn a_failover_of_which_no_server_hears() {
    let failover = Setting { fails_over: true, ..Setting::USUAL };
    goes_red(
        "a_failover_of_which_no_server_hears",
        Setting { left_out: Some(LeftOut::Promotions), ..failover },
        failover,
    );
}

#[test]
fn servers_that_go_by_the_clocks_on_their_walls() {
    goes_red("servers_that_go_by_the_clocks_on_their_walls", without(LeftOut::Time), Setting::USUAL);
}

#[test]
fn times_that_are_the_servers_own() {
    goes_red("times_that_are_the_servers_own", without(LeftOut::Latest), Setting::USUAL);
}
