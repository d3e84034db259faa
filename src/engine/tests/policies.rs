//! The policy in the store: pushed, replaced, broken and removed while a server runs, beside a file and without one.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;

use super::support::{World, asked, call, settings, waiting};
use crate::domain::access::Actor;
use crate::domain::audit::Action;
use crate::domain::policy::{CheckedPolicy, PolicyChange, PushedPolicy, digest, file};
use crate::domain::status::InterruptStatus;
use crate::engine::access::policy_file::{LoadedPolicy, PolicyError, PolicySource, RulesSource};
use crate::engine::access::pushed_policy::{self, PushedPolicyError};
use crate::engine::settings::Settings;
use crate::store::StoreExt;
use crate::store::about::About;
use crate::store::contract::fixture::{Fixture, at};
use crate::store::query::AuditQuery;

crate::store::contract::for_each_store!(
    what_is_pushed_holds_and_what_cannot_be_read_changes_nothing,
    where_nothing_held_before_a_policy_that_cannot_be_read_has_a_person_asked_about_every_call,
    what_is_pushed_holds_and_not_the_file,
    a_server_begins_with_what_was_pushed_or_not_at_all,
    the_same_text_is_pushed_once,
);

/// With places enough: turns that are decided over are at work to the end of a test.
async fn world(fixture: Fixture) -> World {
    World::new(fixture, Settings { workers: 50, ..settings() }).await
}

fn rules(effect: &str) -> String {
    format!("[[rule]]\nname = '{effect}'\neffect = '{effect}'\ntool = 'pay'\n")
}

fn from_file(effect: &str) -> LoadedPolicy {
    let text = rules(effect);
    let source = PolicySource::File(PathBuf::from("policy.toml"));
    LoadedPolicy { rules: file::read(&text).unwrap(), digest: digest(&text), source }
}

async fn push(world: &World, effect: &str) -> bool {
    let policy = CheckedPolicy::of(rules(effect)).unwrap();
    pushed_policy::push(world.store.as_ref(), policy, &Actor::anyone()).await.unwrap().1
}

/// As another release would push it.
async fn push_unread(world: &World) {
    let text = "[[rule]]\nname = 'new'\neffect = 'delegate'\ntool = 'pay'\n".to_owned();
    let policy = PushedPolicy { digest: digest(&text), text, pushed_at: at(1), pushed_by: None };
    let change = PolicyChange::Pushed(policy);
    world.store.transact(About::Access, move |tx| tx.change_policy(&change)).await.unwrap();
}

async fn follow(world: &World) {
    world.engine.access.follow_pushed().await.unwrap();
}

/// Which rule decides over a call of `pay`; `None` where a person is asked because the tool itself wants it.
async fn ruling(world: &World) -> Option<String> {
    let order = world.begin().await;
    let payload = json!({"type": "tool_approval", "tool_name": "pay", "tool_args": {"amount": 5}});
    let pay = json!({"type": "tool_approval", "agent": "bank", "allowed_decisions": ["approve", "reject"], "payload": payload});
    let batch = world.append(&order, vec![call(pay), waiting(None, &[])]).await;
    let interrupt = world.interrupt(asked(batch.unwrap())[0]).await;
    let is_asked = interrupt.status == InterruptStatus::Pending;
    interrupt.rule.map(|rule| if is_asked { format!("asks: {rule}") } else { rule })
}

async fn told(world: &World) -> Vec<(Action, Option<serde_json::Value>)> {
    let query = AuditQuery { limit: 1000, ..AuditQuery::default() };
    let rows = world.store.query(move |reader| reader.audit(&query)).await.unwrap().items;
    let is_of_policies = |action: Action| action.as_str().starts_with("policy_");
    rows.into_iter()
        .filter(|row| is_of_policies(row.action))
        .map(|row| (row.action, row.details.get("source").cloned()))
        .collect()
}

async fn what_is_pushed_holds_and_what_cannot_be_read_changes_nothing(fixture: Fixture) {
    let world = world(fixture).await;
    follow(&world).await;
    assert_eq!((ruling(&world).await, world.engine.access.policy_status()), (None, None));
    for effect in ["deny", "allow", "deny"] {
        assert!(push(&world, effect).await);
        follow(&world).await;
        assert_eq!(ruling(&world).await, Some(format!("policy:{effect}")));
    }
    push_unread(&world).await;
    follow(&world).await;
    assert_eq!(ruling(&world).await.as_deref(), Some("policy:deny"));
    let status = world.engine.access.policy_status().unwrap();
    assert_eq!((status.rules, status.digest), (1, Some(digest(&rules("deny")))));
    assert!(status.error.unwrap().starts_with("line 3: "));
    pushed_policy::remove(world.store.as_ref(), &Actor::anyone()).await.unwrap().unwrap();
    follow(&world).await;
    assert_eq!((ruling(&world).await, world.engine.access.policy_status()), (None, None));
    let store = Some(json!("store"));
    let took = [(Action::PolicyPushed, None), (Action::PolicyLoaded, store.clone())];
    let end = [(Action::PolicyRefused, store), (Action::PolicyRemoved, None), (Action::PolicyLoaded, None)];
    assert_eq!(told(&world).await, [&took[..], &took, &took, &end].concat());
}

async fn where_nothing_held_before_a_policy_that_cannot_be_read_has_a_person_asked_about_every_call(fixture: Fixture) {
    let world = world(fixture).await;
    push_unread(&world).await;
    follow(&world).await;
    assert_eq!(ruling(&world).await.as_deref(), Some("asks: policy:unreadable-policy"));
    let status = world.engine.access.policy_status().unwrap();
    assert_eq!((status.rules, status.digest, status.error.is_some()), (0, None, true));
    push(&world, "allow").await;
    follow(&world).await;
    assert_eq!(ruling(&world).await.as_deref(), Some("policy:allow"));
}

/// A file that is read when a test says so.
struct Played(mpsc::UnboundedReceiver<LoadedPolicy>);

impl RulesSource for Played {
    fn changed(&mut self) -> BoxFuture<'_, Result<LoadedPolicy, PolicyError>> {
        Box::pin(async {
            match self.0.recv().await {
                Some(read) => Ok(read),
                None => std::future::pending().await,
            }
        })
    }
}

async fn what_is_pushed_holds_and_not_the_file(fixture: Fixture) {
    let world = world(fixture).await;
    let access = Arc::clone(&world.engine.access);
    let (_changes, source) = mpsc::unbounded_channel();
    access.follow_policy(from_file("ask"), Played(source)).await.unwrap();
    assert_eq!(ruling(&world).await.as_deref(), Some("asks: policy:ask"));
    push(&world, "deny").await;
    follow(&world).await;
    assert_eq!(ruling(&world).await.as_deref(), Some("policy:deny"));
    // The file is another one meanwhile: it counts once it is alone again.
    access.file_read(&Ok(from_file("allow"))).await.unwrap();
    assert_eq!(ruling(&world).await.as_deref(), Some("policy:deny"));
    pushed_policy::remove(world.store.as_ref(), &Actor::anyone()).await.unwrap();
    follow(&world).await;
    assert_eq!(ruling(&world).await.as_deref(), Some("policy:allow"));
    // The same text is another policy: where it is from counts too.
    push(&world, "allow").await;
    follow(&world).await;
    assert_eq!(access.policy_status().unwrap().source, PolicySource::Store);
}

async fn a_server_begins_with_what_was_pushed_or_not_at_all(fixture: Fixture) {
    let world = world(fixture).await;
    let access = Arc::clone(&world.engine.access);
    let file = || Some(PathBuf::from("policy.toml"));
    access.begin_with_pushed(file()).await.unwrap();
    push_unread(&world).await;
    let refused = access.begin_with_pushed(None).await.unwrap_err();
    assert!(matches!(&refused, PushedPolicyError::Unusable(error) if error.why.starts_with("line 3: ")), "{refused}");
    push(&world, "deny").await;
    let refused = access.begin_with_pushed(file()).await.unwrap_err();
    assert!(refused.to_string().contains(&digest(&rules("deny"))), "{refused}");
    assert_eq!(access.policy_status(), None);
    access.begin_with_pushed(None).await.unwrap();
    assert_eq!(ruling(&world).await.as_deref(), Some("policy:deny"));
    // What was edited in the store is not what was pushed.
    let there = world.store.query(|reader| reader.pushed_policy()).await.unwrap().unwrap();
    let edited = PolicyChange::Pushed(PushedPolicy { text: rules("allow"), ..there });
    world.store.transact(About::Access, move |tx| tx.change_policy(&edited)).await.unwrap();
    assert!(matches!(access.begin_with_pushed(None).await, Err(PushedPolicyError::Unusable(_))));
    follow(&world).await;
    assert_eq!(ruling(&world).await.as_deref(), Some("policy:deny"));
}

async fn the_same_text_is_pushed_once(fixture: Fixture) {
    let world = world(fixture).await;
    assert!(push(&world, "deny").await);
    assert!(!push(&world, "deny").await);
    assert_eq!(told(&world).await, [(Action::PolicyPushed, None)]);
    assert!(pushed_policy::remove(world.store.as_ref(), &Actor::anyone()).await.unwrap().is_some());
    assert_eq!(pushed_policy::remove(world.store.as_ref(), &Actor::anyone()).await, Ok(None));
}
