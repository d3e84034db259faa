//! What holds for every agent, every journal, every place of a crash and every edit.

use super::host::{Chance, Run, Trace};
use super::*;

fn leaf(outside: bool) -> BoxedStrategy<Node> {
    let step = (0..3u8, any::<bool>(), any::<bool>()).prop_map(|(name, told, once)| Node::Step { name, told, once });
    let ask = (0..3u8, any::<bool>()).prop_map(|(name, told)| Node::Ask { name, told });
    if outside {
        prop_oneof![4 => step, 2 => ask, 1 => Just(Node::Sleep), 1 => Just(Node::Outside)].boxed()
    } else {
        prop_oneof![4 => step, 2 => ask, 1 => Just(Node::Sleep)].boxed()
    }
}

fn agent(outside: bool) -> impl Strategy<Value = Vec<Node>> {
    let node = leaf(outside).prop_recursive(4, 24, 3, |inner| {
        let code = prop::collection::vec(inner, 1..4);
        prop_oneof![
            2 => (0..3u8, code.clone()).prop_map(|(name, body)| Node::Call { name, body }),
            3 => (any::<bool>(), prop::collection::vec(code.clone(), 1..4))
                .prop_map(|(race, code)| Node::Tasks { race, code }),
            1 => (code.clone(), code).prop_map(|(left, right)| Node::Branch(left, right)),
        ]
    });
    prop::collection::vec(node, 1..5)
}

/// A recorded run, and how long each scope's trace was when so many entries had been delivered.
struct Recording {
    run: Run,
    /// How many entries had been delivered before.
    first: usize,
    lengths: Vec<BTreeMap<String, usize>>,
}

/// Lets `run` go on for at most `most` happenings.
fn record(mut run: Run, chance: &mut Chance, most: usize) -> Recording {
    let (first, mut lengths) = (run.host.delivered, Vec::new());
    for happened in 0..=most {
        let now = run.host.trace.iter().map(|(scope, lines)| (scope.clone(), lines.len()));
        lengths.resize(run.host.delivered + 1, BTreeMap::new());
        lengths[run.host.delivered] = now.collect();
        if happened == most || !run.happen(chance) {
            break;
        }
    }
    Recording { run, first, lengths }
}

impl Recording {
    fn journal(&self) -> &[ReplayRecord] {
        &self.run.host.journal
    }

    /// The trace when the first `length` entries, and no other, had been delivered; None when it did not come to that.
    fn trace(&self, length: usize) -> Option<Trace> {
        let Some(lengths) = self.lengths.get(length) else {
            return self.run.ended.then(|| self.run.host.trace.clone());
        };
        let cut = |(scope, lines): (&String, &Vec<String>)| {
            (scope.clone(), lines[..lengths.get(scope).copied().unwrap_or_default()].to_vec())
        };
        Some(self.run.host.trace.iter().map(cut).collect())
    }
}

/// Whether `path` belongs to the body of a step that has a result.
fn is_inside_finished(path: &str, journal: &[ReplayRecord]) -> bool {
    around(path).any(|outer| {
        journal.iter().any(|recorded| matches!(&recorded.entry, ReplayEntry::Step(step) if step.path == outer))
    })
}

/// What of a trace a replay of `journal` repeats: not the bodies of finished steps.
fn repeated(trace: &Trace, journal: &[ReplayRecord]) -> Trace {
    let kept = trace.iter().filter(|(scope, lines)| !lines.is_empty() && !is_inside_finished(scope, journal));
    kept.map(|(scope, lines)| (scope.clone(), lines.clone())).collect()
}

/// Nor the bodies of steps that were given up: one that had recorded nothing by then is not even started.
fn comparable(trace: &Trace, journal: &[ReplayRecord]) -> Trace {
    let mut kept = repeated(trace, journal);
    kept.retain(|scope, _| !is_inside_withdrawn(scope, trace));
    kept
}

fn is_inside_withdrawn(path: &str, trace: &Trace) -> bool {
    around(path).any(|outer| {
        let line = format!("withdraws {outer}");
        trace.values().flatten().any(|other| *other == line)
    })
}

/// Every start of the journal replays, and to the same place.
fn check_every_crash(code: &[Node], recording: &Recording) -> Result<(), TestCaseError> {
    for length in recording.first.max(1)..=recording.journal().len() {
        let journal = &recording.journal()[..length];
        let replayed = Run::replay(code, journal)
            .map_err(|mismatch| TestCaseError::fail(format!("after {length} entries: {mismatch}\n{journal:#?}")))?;
        if let Some(recorded) = recording.trace(length) {
            let replayed = comparable(&replayed.host.trace, journal);
            prop_assert_eq!(comparable(&recorded, journal), replayed, "after {} entries", length);
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Edit {
    Remove,
    Rename,
    OtherArguments,
    Add,
    Swap,
    Relax,
}

/// Edits the node that is the `at`th in the order of the text; false when there is none, or nothing to edit on it.
fn edit(code: &mut Vec<Node>, at: &mut usize, how: Edit) -> bool {
    for place in 0..code.len() {
        if *at == 0 {
            return edit_at(code, place, how);
        }
        *at -= 1;
        let edited = match &mut code[place] {
            Node::Call { body, .. } => edit(body, at, how),
            Node::Tasks { code, .. } => code.iter_mut().any(|code| edit(code, at, how)),
            Node::Branch(left, right) => edit(left, at, how) || edit(right, at, how),
            _ => false,
        };
        if edited {
            return true;
        }
    }
    false
}

fn edit_at(code: &mut Vec<Node>, place: usize, how: Edit) -> bool {
    let is_last = place + 1 == code.len();
    match (how, &mut code[place]) {
        (Edit::Remove, _) => drop(code.remove(place)),
        (Edit::Add, _) => code.insert(place, Node::Step { name: 1, told: false, once: false }),
        (Edit::Swap, _) if !is_last => code.swap(place, place + 1),
        (Edit::Rename, Node::Step { name, .. } | Node::Ask { name, .. } | Node::Call { name, .. }) => *name += 1,
        (Edit::OtherArguments, Node::Step { told, .. } | Node::Ask { told, .. }) => *told = !*told,
        (Edit::Relax, Node::Tasks { race, .. }) => *race = !*race,
        _ => return false,
    }
    true
}

fn an_edit() -> impl Strategy<Value = Edit> {
    prop::sample::select(vec![Edit::Remove, Edit::Rename, Edit::OtherArguments, Edit::Add, Edit::Swap, Edit::Relax])
}

/// What `code` does when it is told the journal's entries without anybody comparing.
fn told_blindly(code: &[Node], journal: &[ReplayRecord]) -> Trace {
    let mut run = Run::start(code);
    run.host.journal = journal.to_vec();
    while run.host.delivered < journal.len() && !run.ended {
        run.deliver_next();
    }
    repeated(&run.host.trace, journal)
}

/// The asks of a journal that a replay has to find again.
fn recorded_asks(journal: &[ReplayRecord]) -> impl Iterator<Item = &StepIdentity> {
    journal.iter().filter_map(|recorded| match &recorded.entry {
        ReplayEntry::Step(step) | ReplayEntry::Intent(step) | ReplayEntry::Ask { step, .. } => {
            (!is_inside_finished(&step.path, journal)).then_some(step)
        }
        _ => None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn every_start_of_a_journal_replays_to_where_it_was(code in agent(false), seed in any::<u64>()) {
        let recording = record(Run::start(&code), &mut Chance(seed), 400);
        check_every_crash(&code, &recording)?;
    }

    #[test]
    fn a_turn_survives_crash_after_crash(code in agent(false), seed in any::<u64>(), crashes in 1..6usize) {
        let mut chance = Chance(seed);
        let mut run = Run::start(&code);
        for _ in 0..crashes {
            let recording = record(run, &mut chance, 12);
            check_every_crash(&code, &recording)?;
            let length = recording.journal().len();
            run = Run::replay(&code, &recording.journal()[..length - chance.below(length.min(4))])
                .map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))?;
            if run.ended {
                break;
            }
        }
        check_every_crash(&code, &record(run, &mut chance, 400))?;
    }

    #[test]
    fn raw_io_between_steps_replays(code in agent(true), seed in any::<u64>()) {
        let recording = record(Run::start(&code), &mut Chance(seed), 400);
        for length in 1..=recording.journal().len() {
            let journal = &recording.journal()[..length];
            if let Err(mismatch) = Run::replay(&code, journal) {
                return Err(TestCaseError::fail(format!("after {length} entries: {mismatch}\n{journal:#?}")));
            }
        }
    }

    #[test]
    fn an_edit_is_reported_unless_it_asks_for_the_same(
        code in agent(false), seed in any::<u64>(), how in an_edit(), at in 0..12usize, most in 5..60usize,
    ) {
        let mut edited = code.clone();
        // The last node before `at` that can be edited like that; else the first goes.
        if !(0..=at).rev().any(|mut at| edit(&mut edited, &mut at, how)) {
            edited.remove(0);
        }
        let recording = record(Run::start(&code), &mut Chance(seed), most);
        let journal = recording.journal();
        match Run::replay(&edited, journal) {
            Ok(replayed) => {
                for step in recorded_asks(journal) {
                    let line = format!("asks {} {} {:?}", step.path, step.name, step.arguments);
                    let asked = replayed.host.trace.values().flatten().any(|asked| *asked == line);
                    let asked = asked || is_inside_withdrawn(&step.path, &replayed.host.trace);
                    prop_assert!(asked, "paired silently: {line}\n{edited:?}");
                }
            }
            Err(mismatch) => {
                let (before, after) = (told_blindly(&code, journal), told_blindly(&edited, journal));
                prop_assert_ne!(before, after, "nothing differs: {}", mismatch);
            }
        }
    }
}
