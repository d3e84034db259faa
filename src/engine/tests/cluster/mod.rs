//! Several servers, each a real engine with workers that run scripts, over one simulated database: they are stopped, cut
//! off, killed and started anew while clients want things of all of them, in a network that loses, holds, repeats and
//! reorders what it is given. Then the world heals, and what was told outside is compared with what is there.
//!
//! A seed decides over everything. `HITL_SIMULATED_SEED=7` with the name of a test runs that world alone and says what
//! happened in it; `HITL_SIMULATED_SEEDS=100000` runs so many.

mod driver;
mod entropy;
mod log;
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
use crate::faults;
use crate::store::shared::servers::ServerId;
use crate::store::simulated::LeftOut;
use crate::store::simulated::history::History;
use crate::store::simulated::network::Weather;

/// When every world begins, in milliseconds since 1970.
const BASE: i64 = 1_800_000_000_000;
/// One of so many of the usual number of seeds is run: a world takes a fifth of a second of a core.
const SHARE: u64 = 8;
/// The same of worlds whose database fails over.
const SHARE_OF_FAILOVERS: u64 = 24;

/// What kind of world it is.
#[derive(Debug, Clone, Copy)]
struct Setting {
    weather: Weather,
    left_out: Option<LeftOut>,
    fails_over: bool,
    timings: Timings,
    /// How far the clocks of servers are off at the most.
    skew_ms: u64,
    /// Whether every step takes long.
    is_long: bool,
}

const ROUGH: Weather = Weather { lost: 3, unanswered: 4, held: 2, repeated: 3, slow: 4, slow_ms: 40 };

impl Setting {
    const USUAL: Self = Self {
        weather: ROUGH,
        left_out: None,
        fails_over: false,
        timings: Timings::USUAL,
        skew_ms: 400,
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
    panics: usize,
}

fn run(seed: u64, setting: Setting) -> Outcome {
    entropy::run(seed, || async move {
        seeds::enter(seed, moment);
        World::run(seed, setting).await
    })
}

/// Since the world began.
fn moment() -> Duration {
    thread_local! {
        static BEGAN: tokio::time::Instant = tokio::time::Instant::now();
    }
    // The first who asks begins it; a second is on every clock by then.
    BEGAN.with(tokio::time::Instant::elapsed) + Duration::from_secs(1)
}

/// What is wrong in the world of a seed.
fn look_at(seed: u64, setting: Setting) -> Vec<String> {
    oracle::judge(&run(seed, setting), setting.fails_over)
}

/// The seed that alone is asked for, if one is.
fn only_seed() -> Option<u64> {
    let seed = std::env::var("HITL_SIMULATED_SEED").ok()?;
    Some(seed.parse().expect("a number"))
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

/// Everything holds in the world of every seed.
fn holds(test: &str, setting: Setting, share: u64) {
    // Where every commit is refused once, a few are enough.
    let share = if faults::refuses_once() { share * 5 } else { share };
    let wrong: Vec<(u64, Vec<String>)> = match only_seed() {
        Some(seed) => vec![(seed, tell_of(seed, setting))],
        None => seeds::all(share).map(|seed| (seed, look_at(seed, setting))).collect(),
    };
    let mut wrong = wrong.into_iter().filter(|(_, what)| !what.is_empty()).peekable();
    if let Some((seed, what)) = wrong.peek().cloned() {
        let seeds: Vec<u64> = wrong.map(|(seed, _)| seed).collect();
        panic!(
            "seeds {seeds:?}; the first: {what:#?}\nalone: HITL_SIMULATED_SEED={seed} cargo nextest run --locked \
             --no-default-features --features failpoints {test}"
        );
    }
}

#[test]
fn what_was_promised_holds_whatever_befalls_servers_and_network() {
    holds("what_was_promised_holds_whatever_befalls", Setting::USUAL, SHARE);
}

#[test]
fn what_a_failover_takes_back_leaves_everything_whole() {
    holds("cluster::what_a_failover_takes_back", Setting { fails_over: true, ..Setting::USUAL }, SHARE_OF_FAILOVERS);
}

/// A process that is to run one world, and to say all that was seen in it.
const TOLD: &str = "HITL_SIMULATED_WORLD_TO_BE_TOLD";

#[test]
fn a_world_that_is_run_again_is_the_same() {
    const NAME: &str = "engine::tests::cluster::a_world_that_is_run_again_is_the_same";
    if let Ok(seed) = std::env::var(TOLD) {
        let outcome = run(seed.parse().unwrap(), Setting::USUAL);
        let lines: Vec<String> = outcome.lines.iter().map(|(at, line)| format!("{at:?} {line:?}")).collect();
        #[allow(clippy::print_stdout, reason = "the other process reads it")]
        {
            println!("{}", lines.join("\n"));
        }
        return;
    }
    for seed in ["3", "17"] {
        let told = || {
            let mut process = std::process::Command::new(std::env::current_exe().unwrap());
            let output = process.args(["--exact", NAME, "--nocapture"]).env(TOLD, seed).output().unwrap();
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().filter(|line| line.contains("s ")).map(str::to_owned).collect::<Vec<String>>()
        };
        let (first, again) = (told(), told());
        assert!(first.len() > 50, "{first:?}");
        let differs = first.iter().zip(&again).find(|(first, again)| first != again && !first.contains("finished in"));
        assert_eq!((differs, first.len()), (None, again.len()), "seed {seed}");
    }
}
