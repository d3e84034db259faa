//! The agent's file is edited while a server runs whose workers each import it.

use hitl::engine::ports::dispatch::{Dispatch, Lost};
use hitl::supervisor::settings::SupervisorSettings;

use super::support::{Said, Turn, World, settings, started, until};

/// An agent that says which edition of its file was imported. Its thread makes forking unsafe.
const AGENT: &str = "\
import pathlib, threading
import hitl
EDITION = 'first'
threading.Thread(target=threading.Event().wait, daemon=True).start()
@hitl.agent(version=EDITION)
async def agent(message, state):
    return hitl.ChatMessage.assistant_message(content=EDITION), state
with pathlib.Path(__file__).with_name('imported').open('a') as imported:
    imported.write('.')
";

/// A world whose agent was edited when two workers had imported it, and one more has since.
async fn edited() -> (World, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let (file, imported) = (directory.path().join("edited.py"), directory.path().join("imported"));
    std::fs::write(&file, AGENT).unwrap();
    let settings = SupervisorSettings { paths: vec![directory.path().into()], ..settings("edited:agent") };
    let world = World::with(settings).await;
    // One process has only found out that it must not fork.
    until("the imports of two workers", || std::fs::read(&imported).unwrap().len() >= 3).await;
    std::fs::write(&file, AGENT.replace("'first'", "'second'")).unwrap();
    assert_eq!(world.run("x").await.unwrap(), "first");
    until("a worker of the second edition", || world.supervisor.runtime().code == "second").await;
    (world, directory)
}

/// Which edition ran a turn whose journal names `code`; none where it has to be claimed anew.
async fn ran(world: &World, code: &str) -> Option<String> {
    let mut turn: Turn = world.start_order("x", Vec::new(), vec![started(code, "3.11")]);
    loop {
        match turn.next().await {
            Said::Ended(edition, _) => return edition,
            Said::Lost(Lost::Outdated) => return None,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_turn_runs_in_the_code_that_its_journal_names() {
    let (world, _directory) = edited().await;
    // One worker of the first edition was idle all the time.
    for _ in 0..3 {
        assert_eq!(ran(&world, "second").await.as_deref(), Some("second"));
    }
    world.shut_down().await;
}

#[tokio::test]
async fn a_turn_that_was_claimed_for_the_former_code_is_claimed_anew() {
    let (world, _directory) = edited().await;
    while let Some(edition) = ran(&world, "first").await {
        assert_eq!(edition, "first");
    }
    assert_eq!(ran(&world, "second").await.as_deref(), Some("second"));
    world.shut_down().await;
}
