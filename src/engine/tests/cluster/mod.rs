//! Several servers, each a real engine with workers that run scripts, over one simulated database: they are stopped, cut
//! off, killed and started anew while clients want things of all of them, in a network that loses, delays, repeats and
//! reorders what it is given. Then the world heals, and what was told outside is compared with what is there.
//!
//! A seed decides over everything. `HITL_SIMULATED_SEED=7` with the name of a test runs that world alone and says what
//! happened in it; `HITL_SIMULATED_SEEDS=100000` runs so many, from `HITL_SIMULATED_FROM` on.

mod driver;
mod log;
mod machine;
mod mutations;
mod oracle;
mod server;
mod worker;

use std::collections::BTreeMap;
use std::time::Duration;

use self::driver::World;
use self::log::Line;
use crate::domain::cluster::{Moment, Timings};
use crate::domain::{Error, seeds};
use crate::faults::{self, Rule};
use crate::store::shared::servers::ServerId;
use crate::store::simulated::history::History;
use crate::store::simulated::network::Weather;
use crate::store::simulated::{LeftOut, apart, entropy};

/// When every world begins, in milliseconds since 1970.
const BASE: i64 = 1_800_000_000_000;
/// How many worlds are looked at where nothing says how many: each takes 0.3 s of a core.
const WORLDS: u64 = 370;
/// The same of worlds whose database fails over.
const WORLDS_THAT_FAIL_OVER: u64 = 80;
/// Of those the ones in which a turn once began anew at an epoch that the failover had taken back, and one run was taken for
/// the other.
const TWO_RUNS_AT_AN_EPOCH: [u64; 6] = [1333, 1392, 1702, 1734, 1941, 1991];

/// Worlds where a worker gave up a run that its server counted on, and where what waited for the slot of one did not get it.
const GIVEN_UP: [u64; 2] = [37_739, 23_627];

/// What kind of world it is.
#[derive(Debug, Clone, Copy)]
struct Setting {
    weather: Weather,
    left_out: Option<LeftOut>,
    /// The rule that its servers leave out.
    without: Option<Rule>,
    fails_over: bool,
    timings: Timings,
    /// How far what servers hear of the database's clock is off at the most.
    skew_ms: u64,
    /// Whether every step takes long.
    is_long: bool,
}

const ROUGH: Weather = Weather { lost: 3, unanswered: 4, late: 2, repeated: 3, refused: 3, slow: 4, slow_ms: 40 };

impl Setting {
    const USUAL: Self = Self {
        weather: ROUGH,
        left_out: None,
        without: None,
        fails_over: false,
        timings: Timings::USUAL,
        skew_ms: 200,
        is_long: false,
    };
}

/// What came of a world.
struct Outcome {
    lines: Vec<(Duration, Line)>,
    history: Result<History, Error>,
    /// Whether it came to rest.
    rested: bool,
    /// Which life something befell, and when.
    troubles: Vec<(usize, Moment)>,
    names: Vec<(usize, ServerId)>,
    buried: Vec<(ServerId, Moment)>,
    /// When something was committed last for each server.
    committed: BTreeMap<ServerId, Moment>,
    /// How far ahead of the database's clock what was written is, in milliseconds.
    ahead: i64,
    panics: usize,
}

fn run(seed: u64, setting: Setting) -> Outcome {
    setting.without.into_iter().for_each(faults::leave_out);
    entropy::run(seed, || World::run(seed, setting))
}

/// What is wrong in the world of a seed.
fn look_at(seed: u64, setting: Setting) -> Vec<String> {
    oracle::judge(&run(seed, setting), setting.fails_over)
}

/// One world, with all that its servers say and all that was seen.
fn tell_of(seed: u64, setting: Setting) -> Vec<String> {
    let says = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::DEBUG);
    drop(says.try_init());
    let outcome = run(seed, setting);
    #[allow(clippy::print_stderr, reason = "somebody wants to know")]
    outcome.lines.iter().for_each(|(at, line)| eprintln!("{at:?} {line:?}"));
    #[allow(clippy::print_stderr, reason = "somebody wants to know")]
    if let Ok(history) = &outcome.history {
        for (turn, journal) in &history.turns {
            eprintln!("turn {} of {}, {:?}", turn.id, turn.session_id, turn.life);
            journal.iter().for_each(|recorded| eprintln!("    {:?} {:?}", recorded.at, recorded.entry));
        }
    }
    oracle::judge(&outcome, setting.fails_over)
}

/// Everything holds in so many worlds.
fn goes_green(test: &str, setting: Setting, worlds: u64) {
    // Where every commit is refused once, a few are enough.
    let worlds = if faults::refuses_once() { worlds / 20 } else { worlds };
    all_go_green(test, setting, seeds::of_worlds(worlds));
}

/// Everything holds in the world of every seed.
fn all_go_green(test: &str, setting: Setting, seeds: impl IntoIterator<Item = u64>) {
    apart::run(&format!("engine::tests::cluster::{test}"), "", |_| {
        let wrong: Vec<(u64, Vec<String>)> = match seeds::only() {
            Some(seed) => apart::each([seed], |seed| tell_of(seed, setting)).collect(),
            None => apart::each(seeds, |seed| look_at(seed, setting)).collect(),
        };
        let looked_at = wrong.len();
        let mut wrong = wrong.into_iter().filter(|(_, what)| !what.is_empty()).peekable();
        if let Some((seed, what)) = wrong.peek().cloned() {
            let seeds: Vec<u64> = wrong.map(|(seed, _)| seed).collect();
            panic!(
                "{} of {looked_at} worlds, seeds {seeds:?}; the first: {what:#?}\n{}",
                seeds.len(),
                apart::alone(seed, test)
            );
        }
    });
}

#[test]
fn what_was_promised_holds_whatever_befalls_servers_and_network() {
    goes_green("what_was_promised_holds_whatever_befalls_servers_and_network", Setting::USUAL, WORLDS);
}

#[test]
fn what_a_failover_takes_back_leaves_everything_whole() {
    let failover = Setting { fails_over: true, ..Setting::USUAL };
    goes_green("what_a_failover_takes_back_leaves_everything_whole", failover, WORLDS_THAT_FAIL_OVER);
}

#[test]
fn a_turn_that_a_failover_lets_begin_anew_is_not_taken_for_its_run_before() {
    let failover = Setting { fails_over: true, ..Setting::USUAL };
    let test = "a_turn_that_a_failover_lets_begin_anew_is_not_taken_for_its_run_before";
    all_go_green(test, failover, TWO_RUNS_AT_AN_EPOCH);
}

#[test]
fn a_run_that_is_given_up_after_a_failover_leaves_no_turn_asleep() {
    let failover = Setting { fails_over: true, ..Setting::USUAL };
    all_go_green("a_run_that_is_given_up_after_a_failover_leaves_no_turn_asleep", failover, GIVEN_UP);
}

/// All that was seen in the world of a seed.
fn trace_of(seed: u64) -> Vec<String> {
    run(seed, Setting::USUAL).lines.iter().map(|(at, line)| format!("at {at:?} {line:?}")).collect()
}

#[test]
fn a_world_is_the_same_alone_and_after_any_others() {
    const NAME: &str = "engine::tests::cluster::a_world_is_the_same_alone_and_after_any_others";
    // What was seen in the last of some worlds.
    let last_of = |seeds: &str| {
        let said = apart::run(NAME, seeds, |seeds| {
            let seeds = seeds.split(' ').map(|seed| seed.parse().unwrap());
            let (_, trace) = apart::each(seeds, trace_of).last().unwrap();
            #[allow(clippy::print_stdout, reason = "the other process reads it")]
            {
                println!("{}", trace.join("\n"));
            }
        })?;
        Some(said.lines().filter(|line| line.starts_with("at ")).map(str::to_owned).collect::<Vec<String>>())
    };
    for seed in ["3", "17"] {
        let Some(alone) = last_of(seed) else { return };
        let Some(after) = last_of(&format!("40 {seed} 5 {seed}")) else { return };
        assert!(alone.len() > 50, "{alone:?}");
        let differs = alone.iter().zip(&after).find(|(alone, after)| alone != after);
        assert_eq!((differs, alone.len()), (None, after.len()), "seed {seed}");
    }
}
