//! What a start says.

use hitl::supervisor::Supervisor;
use hitl::supervisor::settings::{StartError, SupervisorSettings};

use crate::support::{World, settings, within};

async fn failure(settings: SupervisorSettings) -> StartError {
    match within(Supervisor::start(settings)).await {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_missing_module_is_named() {
    let StartError::AgentImport { message, .. } = failure(settings("no_such_module:agent")).await else {
        panic!("another error")
    };
    assert!(message.contains("no_such_module"), "{message}");
}

#[tokio::test]
async fn a_missing_attribute_is_named_with_a_hint() {
    let StartError::AgentImport { message, hint } = failure(settings("agents:agnet")).await else {
        panic!("another error")
    };
    assert!(message.contains("agnet"), "{message}");
    assert!(hint.unwrap().contains("agent"));
}

#[tokio::test]
async fn an_import_that_ends_the_process_is_told_with_how() {
    let error = failure(settings("os:abort.no_agent")).await;
    assert!(error.is_agents());
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("dies.py"), "import os\nos._exit(4)\n").unwrap();
    let error =
        failure(SupervisorSettings { paths: vec![directory.path().to_owned()], ..settings("dies:agent") }).await;
    assert!(error.is_agents());
    assert_eq!(error.to_string(), "importing dies:agent ended the worker process: exit code 4");
}

#[tokio::test]
async fn a_missing_interpreter_is_named() {
    let error = failure(SupervisorSettings { python: "/no/such/python".into(), ..settings("agents:agent") }).await;
    assert!(!error.is_agents());
    assert!(error.to_string().contains("/no/such/python"), "{error}");
}

#[tokio::test]
async fn workers_are_forked_from_a_process_that_has_the_agent() {
    let world = World::processes().await;
    assert_eq!(world.run("forked").await.unwrap(), "True");
    world.shut_down().await;
}

#[tokio::test]
async fn an_agent_that_starts_threads_gets_workers_of_their_own() {
    let world = World::with(settings("threaded:agent")).await;
    assert_eq!(world.run("forked").await.unwrap(), "False");
    assert_eq!(world.run("echo still here").await.unwrap(), "still here");
    world.shut_down().await;
}

#[tokio::test]
async fn workers_have_the_given_environment_and_no_input() {
    let mut settings = settings("agents:agent");
    settings.environment.retain(|(name, _)| name == "PATH" || name == "PYTHONPATH");
    let world = World::with(settings).await;
    let names = world.run("environment").await.unwrap();
    let names: Vec<&str> = names.split(' ').filter(|name| *name != "LC_CTYPE").collect();
    assert_eq!(names, ["PATH", "PYTHONHASHSEED", "PYTHONPATH", "PYTHONUNBUFFERED"]);
    assert_eq!(world.run("stdin").await.unwrap(), "''");
    world.shut_down().await;
}
