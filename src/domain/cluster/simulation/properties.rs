//! What holds in every world, and the worlds in which it would not.

use super::super::Timings;
use super::world::{Fault, Outcome, SECOND, Setting, World};
use super::*;
use crate::domain::seeds;

/// Which worlds came to something that `is_wrong`.
fn wrong(run: impl Fn(u64) -> Outcome, is_wrong: impl Fn(&Outcome) -> bool) -> Vec<u64> {
    seeds::wrong(1, run, is_wrong)
}

/// Everything at once for five minutes, then a minute of peace.
fn rough(setting: Setting, seed: u64) -> Outcome {
    let mut world = World::new(setting, seed);
    let mut random = Random(!seed);
    for machine in 0..setting.servers {
        // One is left, to see that the others are gone.
        if machine > 0 && random.chance(30) {
            world.kill(random.within(0..300 * SECOND), machine);
        }
        for _ in 0..random.within(0..6) {
            let how_long = random.within(SECOND..30 * SECOND);
            world.stop(random.within(0..270 * SECOND), machine, how_long);
        }
    }
    for _ in 0..random.within(0..3) {
        world.outage(random.within(0..270 * SECOND), random.within(SECOND..30 * SECOND));
    }
    world.run(300 * SECOND);
    world.heal();
    world.run(360 * SECOND);
    world.finish()
}

#[test]
fn whoever_is_called_dead_acts_no_more() {
    let wrong = wrong(|seed| rough(Setting::rough(), seed), |outcome| !outcome.acted_dead.is_empty());
    assert_eq!(wrong, [] as [u64; 0]);
}

#[test]
fn in_the_end_the_gone_are_dead_and_the_others_act() {
    let setting = Setting::rough();
    let unsettled = wrong(
        |seed| rough(setting, seed),
        |outcome| {
            let all_gone_are_dead = outcome.killed.keys().all(|life| outcome.deaths.contains_key(life));
            let a_dead_one_acts = outcome.acting.iter().any(|life| outcome.deaths.contains_key(life));
            !all_gone_are_dead || a_dead_one_acts || outcome.acting.len() + outcome.killed.len() != setting.servers
        },
    );
    assert_eq!(unsettled, [] as [u64; 0]);
}

#[test]
fn a_server_that_is_gone_is_dead_within_its_time() {
    let setting = Setting::calm();
    // A beat that is under way, the look that has it first, the one that decides, and its word to the store.
    let messages = 6 * setting.delay;
    let limit = u64::try_from(setting.timings.takeover().as_micros()).expect("seconds") + messages;
    let late = wrong(
        |seed| {
            let mut world = World::new(setting, seed);
            world.kill(20 * SECOND + seed * 7919 % SECOND, 0);
            world.run(60 * SECOND);
            world.finish()
        },
        |outcome| outcome.deaths.get(&0).is_none_or(|died| died - outcome.killed[&0] > limit),
    );
    assert_eq!(late, [] as [u64; 0]);
}

#[test]
fn nobody_dies_of_a_store_that_was_away_nor_of_an_observer_that_slept() {
    let died = wrong(innocents(Setting::calm()), |outcome| !outcome.deaths.is_empty());
    assert_eq!(died, [] as [u64; 0]);
}

/// The store goes away for up to a minute, and one of three servers is stopped for up to five seconds, again and again.
fn innocents(setting: Setting) -> impl Fn(u64) -> Outcome {
    move |seed| {
        let mut world = World::new(setting, seed);
        let mut random = Random(!seed);
        for round in 0..4 {
            let begins = round * 100 * SECOND;
            world.outage(begins + random.within(10 * SECOND..20 * SECOND), random.within(SECOND..60 * SECOND));
            world.stop(begins + random.within(85 * SECOND..90 * SECOND), 0, random.within(0..5 * SECOND));
        }
        world.run(400 * SECOND);
        world.finish()
    }
}

mod without_a_rule {
    //! Each rule is there for a world that goes wrong without it.

    use super::*;

    fn dead_act(setting: Setting) -> bool {
        !wrong(|seed| rough(setting, seed), |outcome| !outcome.acted_dead.is_empty()).is_empty()
    }

    #[test]
    fn a_lease_that_begins_with_the_answer() {
        assert!(dead_act(Setting { fault: Some(Fault::LeaseFromAnswer), ..Setting::rough() }));
    }

    #[test]
    fn a_lease_without_an_end() {
        let timings = Timings { lease: SECOND_LONG * 3600, ..Timings::USUAL };
        assert!(dead_act(Setting { timings, ..Setting::rough() }));
    }

    #[test]
    fn a_death_that_comes_before_the_end_of_a_lease() {
        let timings = Timings { death: SECOND_LONG * 4, looks: 1, ..Timings::USUAL };
        assert!(dead_act(Setting { timings, ..Setting::rough() }));
    }

    #[test]
    fn a_count_that_was_seen_when_it_was_asked_for() {
        // What may be off at the two ends of a look is what lies between the end of a lease and death.
        let timings = Timings { death: SECOND_LONG * 7, looks: 1, gap: SECOND_LONG * 60, ..Timings::USUAL };
        let setting = Setting { timings, ..Setting::rough() };
        assert!(dead_act(Setting { fault: Some(Fault::SeenWhenAsked), ..setting }));
    }

    #[test]
    fn a_burial_that_does_not_look_at_the_count() {
        assert!(dead_act(Setting { fault: Some(Fault::BuriedUnseen), ..Setting::rough() }));
    }

    #[test]
    fn looks_that_may_be_any_time_apart() {
        let timings = Timings { gap: SECOND_LONG * 3600, looks: 1, ..Timings::USUAL };
        let setting = Setting { timings, ..Setting::calm() };
        assert!(!wrong(innocents(setting), |outcome| !outcome.deaths.is_empty()).is_empty());
    }

    const SECOND_LONG: std::time::Duration = std::time::Duration::from_secs(1);
}
