//! What may take its time is done apart from the transactions, and counts only while what it was about stands.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::support::{World, asked, call, question, runtime, settings, step, waiting};
use crate::domain::access::Actor;
use crate::domain::policy::{CheckedPolicy, Effect, Rule, Rules};
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{Error, InterruptId, apart};
use crate::engine::access::policy_file::{LoadedPolicy, PolicySource};
use crate::engine::access::pushed_policy;
use crate::engine::ports::dispatch::TurnOrder;
use crate::engine::settings::Settings;
use crate::engine::telling::view::{Answer, NewSession};
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::{Fixture, interrupt_id};
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::SimulatedDatabase;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, StoreExt, WriteJob};

crate::store::contract::for_each_store!(
    a_transaction_does_nothing_that_may_take_its_time,
    what_takes_no_time_to_look_at_is_looked_at_by_the_transaction,
    what_is_answered_twice_is_named,
    others_write_while_an_answer_is_looked_at,
    an_answer_is_looked_at_again_once_the_rules_are_others,
    an_answer_is_looked_at_again_once_a_policy_was_pushed,
    what_a_decision_for_always_settles_is_looked_at_again_once_more_is_asked,
    no_decision_for_always_settles_what_was_hidden_before_there_were_rules,
    an_answer_whose_rules_change_for_ever_is_not_taken,
    a_question_is_looked_at_again_once_the_rules_are_others,
    the_rules_of_a_session_are_ready_when_it_asks,
);

/// A job that is kept back, and whoever waits for it.
type KeptBack = (About, WriteJob, oneshot::Sender<Result<(), Error>>);

/// Keeps back what is written, as often as it is told to.
struct KeepingBack {
    store: Arc<dyn Store>,
    next: Mutex<usize>,
    kept: Mutex<Vec<KeptBack>>,
    changed: Notify,
    /// How often it was read.
    reads: AtomicUsize,
}

impl KeepingBack {
    fn keep_back_next(&self) {
        *self.next.lock().unwrap() += 1;
    }

    /// Waits until something is kept back, and hands it out.
    async fn kept_back(&self) -> KeptBack {
        loop {
            if let Some(kept) = self.kept.lock().unwrap().pop() {
                return kept;
            }
            self.changed.notified().await;
        }
    }

    async fn write_now(&self, (about, job, done): KeptBack) {
        done.send(self.store.write(about, job).await).unwrap();
    }
}

impl Store for KeepingBack {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        let mut next = self.next.lock().unwrap();
        if *next == 0 {
            return self.store.write(about, job);
        }
        *next -= 1;
        let (done, written) = oneshot::channel();
        self.kept.lock().unwrap().push((about, job, done));
        self.changed.notify_one();
        Box::pin(async move { written.await.unwrap() })
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

async fn keeping_back(fixture: Fixture) -> (Arc<World>, Arc<KeepingBack>) {
    let store = Arc::new(KeepingBack {
        store: Arc::clone(&fixture.store),
        next: Mutex::default(),
        kept: Mutex::default(),
        changed: Notify::new(),
        reads: AtomicUsize::new(0),
    });
    let world = World::over(fixture, Arc::clone(&store) as _, Settings { workers: 9, ..settings() }, runtime()).await;
    (Arc::new(world), store)
}

fn rule(effect: Effect, when: Option<&str>) -> Rule {
    let (name, tool, when) = ("rule".to_owned(), "pay".to_owned(), when.map(str::to_owned));
    Rule { name, effect, tool, when, agent: None, reason: None, approvers: Vec::new(), unsigned: false }
}

fn pay(amount: u64) -> Value {
    json!({
        "type": "tool_approval", "agent": "bank", "allowed_decisions": ["approve", "edit", "reject"],
        "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": {"amount": amount}},
        "args_schema": {"type": "object", "properties": {"amount": {"type": "integer"}}},
    })
}

/// A turn of a session whose rules are this one.
async fn begin_with(world: &World, rule: Rule) -> TurnOrder {
    let new = NewSession { rules: vec![rule], ..NewSession::default() };
    let session = world.engine.create_session(new, None, &Actor::anyone()).await.unwrap().session.id;
    world.send(session).await.unwrap();
    world.order_of(session).await
}

/// A turn that asks whether it may pay so much.
async fn paying(world: &World, amount: u64) -> (TurnOrder, InterruptId) {
    let order = world.begin().await;
    let batch = world.append(&order, vec![call(pay(amount)), waiting(None, &[])]).await.unwrap();
    (order, asked(batch)[0])
}

fn answering(
    world: &Arc<World>,
    order: &TurnOrder,
    id: InterruptId,
    value: Value,
) -> tokio::task::JoinHandle<Result<(), Error>> {
    let (world, session) = (Arc::clone(world), order.session);
    tokio::spawn(async move { world.answer(session, id, value).await.map(drop) })
}

async fn a_transaction_does_nothing_that_may_take_its_time(fixture: Fixture) {
    let slow = |_: &mut dyn crate::store::Transaction| {
        apart::takes_its_time();
        Ok(())
    };
    let refused = fixture.store.transact(About::Nothing, slow).await;
    // Only builds with failpoints look.
    assert_eq!(matches!(refused, Err(Error::Internal(_))), cfg!(feature = "failpoints"), "{refused:?}");
    apart::takes_its_time();
}

async fn what_takes_no_time_to_look_at_is_looked_at_by_the_transaction(fixture: Fixture) {
    let (world, store) = keeping_back(fixture).await;
    let reads = || store.reads.swap(0, Ordering::Relaxed);
    let ((order, first), (edited, second), (ruled, third)) =
        (paying(&world, 1).await, paying(&world, 2).await, paying(&world, 3).await);
    reads();
    world.answer(order.session, first, json!({"approved": true})).await.unwrap();
    assert_eq!(reads(), 0, "a yes");
    world.answer(edited.session, second, json!({"approved": true, "args": {"amount": 4}})).await.unwrap();
    assert_eq!(reads(), 0, "there is a schema for the arguments: what it read is looked at apart, and it runs again");
    load(&world, rule(Effect::Ask, Some("args.amount > 4")));
    world.answer(ruled.session, third, json!({"approved": true})).await.unwrap();
    assert_eq!(reads(), 1, "there is a rule with an expression");
    load(&world, rule(Effect::Ask, None));
    let order = begin_with(&world, rule(Effect::Ask, None)).await;
    let fourth = asked(world.append(&order, vec![call(pay(1)), waiting(None, &[])]).await.unwrap())[0];
    reads();
    world.answer(order.session, fourth, json!({"approved": true})).await.unwrap();
    assert_eq!(reads(), 0, "the session has rules of its own, which are compiled apart");
}

/// Small answers of a request to these.
fn answers_to(ids: impl IntoIterator<Item = InterruptId>) -> Vec<Answer> {
    let small = |id: InterruptId| Answer {
        interrupt_id: id.to_string(),
        value: json!("yes"),
        place: Vec::new(),
        said: None,
        expected_type: None,
    };
    ids.into_iter().map(small).collect()
}

async fn what_is_answered_twice_is_named(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (order, ids) = world.asking(2).await;
    let answer = |ids| world.engine.resume(order.session, answers_to(ids), Actor::anyone(), None);
    let twice = answer(vec![ids[0], ids[1], ids[0], ids[0]]).await;
    assert_eq!(twice.map(drop), Err(Error::DuplicateAnswer(ids[0].to_string())));
    // What is wrong first is told.
    let unknown = interrupt_id(999);
    let both = answer(vec![unknown, unknown, ids[0]]).await;
    assert_eq!(both.map(drop), Err(Error::UnknownInterrupt(unknown.to_string())));
    assert_eq!(world.interrupt(ids[0]).await.status, InterruptStatus::Pending);
    answer(ids.clone()).await.unwrap();
}

#[tokio::test]
async fn all_answers_of_a_request_are_looked_for_in_a_shared_database_at_once() {
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    let database = SimulatedDatabase::new(Arc::clone(&clock));
    let store = SharedStore::new(database.clone(), StoreAccess::Alone, Arc::clone(&clock), Handle::current());
    let world = World::over(Fixture::memory(), Arc::new(store), settings(), runtime()).await;
    let (order, _) = world.asking(1).await;
    let unknown = answers_to((1000..1300).map(interrupt_id));
    database.calls();
    let refused = world.engine.resume(order.session, unknown, Actor::anyone(), None).await;
    assert!(matches!(refused, Err(Error::UnknownInterrupt(_))), "{refused:?}");
    let (reads, _) = database.calls();
    assert!(reads <= 4, "{reads} rounds");
}

async fn others_write_while_an_answer_is_looked_at(fixture: Fixture) {
    let world = Arc::new(World::new(fixture, Settings { workers: 9, ..settings() }).await);
    let (order, ids) = world.asking(1).await;
    let (editing, edited) = paying(&world, 1).await;
    let processors = world.engine.journal.prechecking().available_permits();
    let all = u32::try_from(processors).unwrap();
    let busy = Arc::clone(world.engine.journal.prechecking()).acquire_many_owned(all).await.unwrap();
    let large = answering(&world, &order, ids[0], json!("x".repeat(100_000)));
    let edit = answering(&world, &editing, edited, json!({"approved": true, "args": {"amount": 2}}));
    // Others ask and are answered.
    let (other, asked) = paying(&world, 3).await;
    world.answer(other.session, asked, json!({"approved": true})).await.unwrap();
    world.step(&other, "paid").await.unwrap();
    assert!(!large.is_finished() && !edit.is_finished());
    assert_eq!(world.status(order.session).await, Status::Interrupted);
    drop(busy);
    large.await.unwrap().unwrap();
    edit.await.unwrap().unwrap();
    assert_eq!(world.engine.journal.prechecking().available_permits(), processors);
}

/// The policy file has this rule alone from now on.
fn load(world: &World, rule: Rule) {
    let rules = Rules::compile(vec![rule]).unwrap();
    let (digest, source) = ("sha256:0".to_owned(), PolicySource::Store);
    world.engine.access.use_rules(Ok(LoadedPolicy { rules, digest, source }));
}

async fn an_answer_is_looked_at_again_once_the_rules_are_others(fixture: Fixture) {
    let (world, store) = keeping_back(fixture).await;
    let (order, id) = paying(&world, 5).await;
    store.keep_back_next();
    let answering = answering(&world, &order, id, json!({"approved": true}));
    let kept = store.kept_back().await;
    load(&world, rule(Effect::Deny, Some("args.amount > 4")));
    store.write_now(kept).await;
    let refused = answering.await.unwrap().unwrap_err();
    assert!(matches!(&refused, Error::InvalidAnswer(errors) if errors[0].kind == "denied"), "{refused}");
    assert_eq!(world.interrupt(id).await.status, InterruptStatus::Pending);
    assert_eq!(world.kinds(order.turn).await, "start ask pause");
}

async fn an_answer_is_looked_at_again_once_a_policy_was_pushed(fixture: Fixture) {
    let (world, store) = keeping_back(fixture).await;
    let (order, id) = paying(&world, 5).await;
    store.keep_back_next();
    let answering = answering(&world, &order, id, json!({"approved": true}));
    let kept = store.kept_back().await;
    let denying = "[[rule]]\nname = 'rule'\neffect = 'deny'\ntool = 'pay'\nwhen = 'args.amount > 4'\n";
    let denying = CheckedPolicy::of(denying.to_owned()).unwrap();
    pushed_policy::push(world.store.as_ref(), denying, &Actor::anyone()).await.unwrap();
    world.engine.access.follow_pushed().await.unwrap();
    store.write_now(kept).await;
    let refused = answering.await.unwrap().unwrap_err();
    assert!(matches!(&refused, Error::InvalidAnswer(errors) if errors[0].kind == "denied"), "{refused}");
    assert_eq!(world.interrupt(id).await.status, InterruptStatus::Pending);
}

async fn what_a_decision_for_always_settles_is_looked_at_again_once_more_is_asked(fixture: Fixture) {
    let (world, store) = keeping_back(fixture).await;
    load(&world, rule(Effect::Ask, Some("args.amount / args.amount > 5")));
    let (order, id) = paying(&world, 5).await;
    store.keep_back_next();
    let answering = answering(&world, &order, id, json!({"approved": true, "always": true}));
    let kept = store.kept_back().await;
    let later = world.append(&order, vec![call(pay(6)), call(pay(0)), waiting(None, &[])]).await.unwrap();
    let (six, none) = (asked(later), InterruptStatus::Pending);
    store.write_now(kept).await;
    answering.await.unwrap().unwrap();
    let (sixth, zeroth) = (world.interrupt(six[0]).await, world.interrupt(six[1]).await);
    assert!(sixth.rule.is_some_and(|rule| rule.starts_with("grant:")));
    // Of this one the rule could not tell.
    assert_eq!(zeroth.status, none);
}

async fn no_decision_for_always_settles_what_was_hidden_before_there_were_rules(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let mut hidden = pay(5);
    hidden["is_run"] = json!(false);
    let batch = world.append(&order, vec![call(pay(5)), call(hidden), call(pay(6)), waiting(None, &[])]).await.unwrap();
    let [shown, hidden, other] = asked(batch)[..] else { panic!("three are asked") };
    let world = world.crash().await;
    load(&world, rule(Effect::Deny, Some("args.amount > 1000")));
    world.answer(order.session, shown, json!({"approved": true, "always": true})).await.unwrap();
    assert!(world.interrupt(other).await.rule.is_some_and(|rule| rule.starts_with("grant:")));
    assert_eq!(world.interrupt(hidden).await.status, InterruptStatus::Pending);
}

async fn an_answer_whose_rules_change_for_ever_is_not_taken(fixture: Fixture) {
    let (world, store) = keeping_back(fixture).await;
    load(&world, rule(Effect::Ask, Some("args.amount > 4")));
    let (order, id) = paying(&world, 5).await;
    for _ in 0..crate::engine::journal::prechecks::MAX_PRECHECKS {
        store.keep_back_next();
    }
    let answering = answering(&world, &order, id, json!({"approved": true}));
    for _ in 0..crate::engine::journal::prechecks::MAX_PRECHECKS {
        let kept = store.kept_back().await;
        load(&world, rule(Effect::Ask, Some("args.amount > 4")));
        store.write_now(kept).await;
    }
    assert!(matches!(answering.await.unwrap(), Err(Error::StoreUnavailable(_))));
    assert_eq!(world.interrupt(id).await.status, InterruptStatus::Pending);
    world.answer(order.session, id, json!({"approved": true})).await.unwrap();
}

async fn a_question_is_looked_at_again_once_the_rules_are_others(fixture: Fixture) {
    let (world, store) = keeping_back(fixture).await;
    load(&world, rule(Effect::Ask, Some("args.amount > 4")));
    let order = world.begin().await;
    store.keep_back_next();
    let (other, turn) = (Arc::clone(&world), order.clone());
    let said = vec![step("a"), call(pay(5)), waiting(None, &[])];
    let asking = tokio::spawn(async move { other.append(&turn, said).await });
    let kept = store.kept_back().await;
    load(&world, rule(Effect::Deny, Some("args.amount > 4")));
    store.write_now(kept).await;
    let batch = asking.await.unwrap().unwrap();
    assert_eq!(world.kinds(order.turn).await, "start step ask answer");
    let denied = world.interrupt(asked(batch)[0]).await;
    assert_eq!((denied.status, denied.rule.as_deref()), (InterruptStatus::Resolved, Some("policy:rule")));
}

async fn the_rules_of_a_session_are_ready_when_it_asks(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = begin_with(&world, rule(Effect::Deny, Some("args.amount > 4"))).await;
    let session = order.session;
    world.append(&order, vec![call(pay(5)), question(1, None), waiting(Some(2), &[])]).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask answer ask pause");
    let world = world.crash().await;
    world.answer(session, world.state(session).await.pending()[0], json!(1)).await.unwrap();
    let order = world.order_of(session).await;
    world.append(&order, vec![call(pay(7))]).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask answer ask pause answer ask answer");
}
