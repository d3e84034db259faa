//! What a start says.

use std::time::Duration;

use hitl::engine::ports::dispatch::Dispatch as _;
use hitl::supervisor::Supervisor;
use hitl::supervisor::settings::{Isolation, SupervisorSettings, SupervisorStartError};
use tokio_util::sync::CancellationToken;

use super::support::{World, alone, captured_log, descendants, exists, settings, signal, until, within};

async fn failure(settings: SupervisorSettings) -> SupervisorStartError {
    match within(Supervisor::start(settings)).await {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_missing_module_is_named() {
    let SupervisorStartError::AgentImport { message, .. } = failure(settings("no_such_module:agent")).await else {
        panic!("another error")
    };
    assert!(message.contains("no_such_module"), "{message}");
}

#[tokio::test]
async fn a_missing_attribute_is_named_with_a_hint() {
    let SupervisorStartError::AgentImport { message, hint } = failure(settings("agents:agnet")).await else {
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

/// An agent whose import hangs as soon as there is a file `hang` beside it.
const HANGS_LATER: &str = "\
import pathlib, time
from hitl import ChatMessage
while (pathlib.Path(__file__).parent / 'hang').exists():
    time.sleep(0.05)
async def agent(message, state):
    return ChatMessage.assistant_message(content='done'), state
";

#[test]
fn an_import_that_hangs_is_ended_in_time() {
    alone("with_workers::starting::an_import_that_hangs_is_ended_in_time", async {
        let (directory, settings) = hangs_later();
        std::fs::write(directory.path().join("hang"), "").unwrap();
        let limit = Duration::from_millis(500);
        let error = failure(SupervisorSettings { start_timeout: limit, ..settings }).await;
        assert_eq!(error.to_string(), "importing hangs_later:agent took longer than 0.5 s");
        assert!(error.is_agents());
        assert_eq!(descendants(std::process::id()), [0; 0]);
    });
}

/// The beginning of an agent that cannot be forked, since it has a thread; what follows is what its workers do when they
/// import it.
const IN_WORKERS: &str = "\
import os, sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
async def agent(message, state):
    return None, state
if 'hitl.worker.plain' in sys.orig_argv:
";

/// Settings for an agent whose workers do `what` when they import it.
fn in_workers(what: &str) -> (tempfile::TempDir, SupervisorSettings) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("in_workers.py"), format!("{IN_WORKERS}    {what}\n")).unwrap();
    let paths = vec![directory.path().to_owned()];
    (directory, SupervisorSettings { paths, ..settings("in_workers:agent") })
}

#[tokio::test]
async fn a_worker_that_ends_while_it_imports_the_agent_is_told_with_how() {
    let (_directory, settings) = in_workers("os._exit(4)");
    for isolation in [Isolation::Process, Isolation::tasks()] {
        let error = failure(SupervisorSettings { isolation, ..settings.clone() }).await;
        assert_eq!(error.to_string(), "importing in_workers:agent ended the worker process: exit code 4");
        assert!(error.is_agents());
    }
}

#[test]
fn a_worker_that_only_closes_its_channel_is_ended() {
    alone("with_workers::starting::a_worker_that_only_closes_its_channel_is_ended", async {
        let (_directory, settings) = in_workers("os.closerange(3, 1000); threading.Event().wait()");
        let error = failure(SupervisorSettings { start_timeout: Duration::ZERO, ..settings }).await;
        assert!(error.to_string().ends_with("it closed its channel before hello"), "{error}");
        assert_eq!(descendants(std::process::id()), [0; 0]);
    });
}

#[test]
fn a_start_that_no_worker_brings_about_is_not_tried_again() {
    alone("with_workers::starting::a_start_that_no_worker_brings_about_is_not_tried_again", async {
        let (_directory, settings) = in_workers("raise RuntimeError('not today')");
        for isolation in [Isolation::Process, Isolation::tasks()] {
            let error = failure(SupervisorSettings { isolation, ..settings.clone() }).await;
            assert!(error.is_agents(), "{error}");
            // Whatever would start another worker is a task, also while it rests before it does.
            let tasks = tokio::runtime::Handle::current().metrics();
            until("the end of every task", || tasks.num_alive_tasks() == 0).await;
            assert_eq!(descendants(std::process::id()), [0; 0]);
        }
    });
}

#[test]
fn a_start_that_is_given_up_leaves_no_process() {
    alone("with_workers::starting::a_start_that_is_given_up_leaves_no_process", async {
        let (directory, settings) = hangs_later();
        std::fs::write(directory.path().join("hang"), "").unwrap();
        let stop = CancellationToken::new();
        let starting = tokio::spawn({
            let stop = stop.clone();
            async move { Supervisor::start_until(settings, &stop).await.map(drop) }
        });
        until("an import", || !descendants(std::process::id()).is_empty()).await;
        stop.cancel();
        assert!(matches!(within(starting).await.unwrap(), Err(SupervisorStartError::Stopped)));
        assert_eq!(descendants(std::process::id()), [0; 0]);
    });
}

#[test]
fn a_zygote_that_cannot_be_replaced_keeps_no_shutdown_waiting() {
    alone("with_workers::starting::a_zygote_that_cannot_be_replaced_keeps_no_shutdown_waiting", async {
        let (directory, settings) = hangs_later();
        let world = World::with(settings).await;
        assert_eq!(world.run("anything").await.unwrap(), "done");
        std::fs::write(directory.path().join("hang"), "").unwrap();
        let zygote = children(std::process::id())[0];
        signal("-KILL", &zygote.to_string());
        until("another import", || {
            captured_log().contains("the zygote is gone") && children(std::process::id()).iter().any(|it| *it != zygote)
        })
        .await;
        world.shut_down().await;
        until("its end", || !exists(&zygote.to_string())).await;
        assert_eq!(descendants(std::process::id()), [0; 0]);
    });
}

/// An agent whose import fails as soon as there is a file `broken` beside it.
const BREAKS_LATER: &str = "\
import pathlib
from hitl import ChatMessage
if (pathlib.Path(__file__).parent / 'broken').exists():
    raise RuntimeError('not today')
async def agent(message, state):
    return ChatMessage.assistant_message(content='done'), state
";

#[test]
fn a_supervisor_knows_when_no_worker_can_be_started_and_when_one_can_again() {
    alone("with_workers::starting::a_supervisor_knows_when_no_worker_can_be_started_and_when_one_can_again", async {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("breaks_later.py"), BREAKS_LATER).unwrap();
        let broken = directory.path().join("broken");
        for isolation in [Isolation::Process, Isolation::tasks()] {
            let paths = vec![directory.path().to_owned()];
            let world = World::with(SupervisorSettings { paths, isolation, ..settings("breaks_later:agent") }).await;
            assert_eq!(world.run("anything").await.unwrap(), "done");
            assert!(world.supervisor.has_workers());
            std::fs::write(&broken, "").unwrap();
            signal("-KILL", &children(std::process::id())[0].to_string());
            until("the last of several starts", || !world.supervisor.has_workers()).await;
            assert_eq!(world.run("nothing").await.unwrap_err().code, "worker_exited");
            std::fs::remove_file(&broken).unwrap();
            until("another worker", || world.supervisor.has_workers()).await;
            assert_eq!(world.run("anything").await.unwrap(), "done");
            world.shut_down().await;
        }
    });
}

fn hangs_later() -> (tempfile::TempDir, SupervisorSettings) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("hangs_later.py"), HANGS_LATER).unwrap();
    let paths = vec![directory.path().to_owned()];
    (directory, SupervisorSettings { paths, ..settings("hangs_later:agent") })
}

/// The processes that `pid` itself has started.
fn children(pid: u32) -> Vec<u32> {
    let below = descendants(pid);
    let of_others: Vec<u32> = below.iter().flat_map(|child| descendants(*child)).collect();
    below.into_iter().filter(|child| !of_others.contains(child)).collect()
}
