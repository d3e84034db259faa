//! What deciding costs, without I/O: a transition, a replay, a schema check, a digest.

#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use hitl::domain::decision::{Decision, DecisionKind, Terms};
use hitl::domain::journal::StepIdentity;
use hitl::domain::replay::{Replay, ReplayAction, ReplayRecord};
use hitl::domain::schema::{self, Anew, CompiledSchema};
use hitl::domain::session::{Event, Phase, Session};
use hitl::domain::{InterruptId, JsonObject, SessionId, Timestamp, TurnId, digest};
use hitl::store::kept::{Kept, Limits};
use serde_json::{Value, json};
use uuid::Uuid;

const STEPS: usize = 10;
const CODE: &str = "0123456789abcdef";

fn transition(criterion: &mut Criterion) {
    let turn = TurnId(Uuid::from_u128(2));
    let now = Timestamp::from_millis(1_700_000_000_000);
    let idle = Session::new(SessionId(Uuid::from_u128(1)), "agents:main", 4, now);
    let running = Session { phase: Phase::Running { turn }, ..idle };
    criterion.bench_function("domain/transition", |bencher| {
        bencher.iter(|| {
            let asked = Event::InterruptOpened { turn, interrupt: InterruptId(Uuid::from_u128(3)) };
            black_box(&running).transition(asked, now).unwrap()
        });
    });
}

fn identity(number: usize) -> Value {
    json!({
        "path": format!("0#{number}"),
        "kind": "tool",
        "name": "write_file",
        "location": "agent.py:42",
        "arguments": {"path": format!("{number:032x}"), "content": format!("{number:032x}"), "mode": "00"},
    })
}

/// Ten finished steps.
fn journal() -> Vec<ReplayRecord> {
    let start = json!({"at": 1_700_000_000_000_i64, "entry": "start", "code": CODE, "python": "3.11"});
    let steps = (1..=STEPS).map(|number| {
        json!({"at": 1_700_000_000_000_i64, "entry": "step", "step": identity(number), "result": {"value": number}})
    });
    std::iter::once(start).chain(steps).map(|entry| serde_json::from_value(entry).unwrap()).collect()
}

/// Beside the floor: as many calls of a function.
fn replay(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("domain/replay of 10 steps");
    let (entries, steps) = (journal(), (1..=STEPS).map(|number| serde_json::from_value(identity(number)).unwrap()));
    let steps: Vec<StepIdentity> = steps.collect();
    group.bench_function("journal match", |bencher| {
        bencher.iter_batched(
            || (entries.clone(), steps.clone()),
            |(entries, steps)| {
                let mut replay = Replay::new(entries, CODE).unwrap();
                for step in steps {
                    replay.ask(step, false).unwrap();
                    assert!(matches!(replay.next(), ReplayAction::Deliver { .. }));
                }
                assert_eq!(replay.next(), ReplayAction::End);
                replay
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("plain calls", |bencher| {
        bencher.iter_batched(
            || steps.clone(),
            |steps| {
                for step in steps {
                    call(black_box(step));
                }
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

#[inline(never)]
fn call(step: StepIdentity) -> usize {
    black_box(step.arguments.len())
}

fn schema_check(criterion: &mut Criterion) {
    let approval = json!({
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["approved"],
        "additionalProperties": false,
    });
    let answer = json!({"approved": true, "reason": "it is mine"});
    let mut group = criterion.benchmark_group("domain/schema");
    group.bench_function("compile and check", |bencher| {
        bencher.iter(|| assert!(schema::validate(black_box(&approval), black_box(&answer), &Anew).is_empty()));
    });
    let kept: Kept<Arc<CompiledSchema>> = Kept::new(Limits { most: 256, bytes: 1024 * 1024 });
    group.bench_function("check", |bencher| {
        bencher.iter(|| assert!(schema::validate(black_box(&approval), black_box(&answer), &kept).is_empty()));
    });
    group.finish();
}

/// A tool with 70 arguments, some 10 KB of schema.
fn edit(criterion: &mut Criterion) {
    let about = "what this argument of the tool is for, in a sentence of some length, as models need it";
    let argument = json!({"type": "string", "description": about, "minLength": 1});
    let names: Vec<String> = (0..70).map(|number| format!("argument_{number}")).collect();
    let arguments: JsonObject = names.iter().map(|name| (name.clone(), argument.clone())).collect();
    let schema = json!({"type": "object", "properties": arguments, "additionalProperties": false});
    let args: JsonObject = names.iter().map(|name| (name.clone(), json!("some text"))).collect();
    let answer = json!({"type": "edit", "args": args});
    let terms = Terms { allowed: &DecisionKind::ALL, tool_name: Some("pay"), args_schema: Some(&schema) };
    let mut group = criterion.benchmark_group("domain/edit against 10 KB of schema");
    group.bench_function("compiled anew", |bencher| {
        bencher.iter(|| Decision::read(black_box(&answer), terms, &Anew).unwrap());
    });
    let kept: Kept<Arc<CompiledSchema>> = Kept::new(Limits { most: 256, bytes: 1024 * 1024 });
    group.bench_function("kept", |bencher| {
        bencher.iter(|| Decision::read(black_box(&answer), terms, &kept).unwrap());
    });
    group.finish();
}

fn digests(criterion: &mut Criterion) {
    let arguments = json!({"path": "/tmp/report.txt", "content": "x".repeat(1_000), "mode": 420});
    criterion.bench_function("domain/digest of 1 KB", |bencher| bencher.iter(|| digest::of(black_box(&arguments))));
}

criterion_group!(benches, transition, replay, schema_check, edit, digests);
criterion_main!(benches);
