//! Processes end when they should, and never stay.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use hitl::supervisor::settings::{Isolation, SupervisorSettings};

use super::support::{
    Said, Turn, World, again, alone, descendants, exists, only_again, scripted, settings, until, within,
};

fn mine() -> Vec<u32> {
    descendants(std::process::id())
}

#[test]
fn five_hundred_turns_leave_nothing_behind() {
    alone("with_workers::lifetimes::five_hundred_turns_leave_nothing_behind", async {
        let world = World::processes().await;
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        world.run("echo warm").await.unwrap();
        // The zygote and two idle children; each child has a channel and two pipes.
        until("two idle children", || mine().len() == 3).await;
        let before = open();
        for _ in 0..50 {
            let turns: Vec<Turn> = (0..10).map(|_| world.start("echo quick")).collect();
            for turn in turns {
                assert_eq!(turn.outcome().await.unwrap(), "quick");
            }
        }
        until("the end of every child", || mine().len() == 3).await;
        until("the closing of every descriptor", || open() <= before).await;
        world.shut_down().await;
        assert_eq!(mine(), Vec::<u32>::new());
    });
}

/// What has a session of its own is not killed with the turn that started it, and has its standard output from there.
#[tokio::test]
async fn a_program_that_outlives_its_turn_keeps_nothing_open_here() {
    let world = World::with(scripted()).await;
    let mark = std::env::temp_dir().join(format!("hitl-daemon-{}", std::process::id()));
    std::fs::write(&mark, "").unwrap();
    assert_eq!(world.run(&format!("daemon {}", mark.display())).await.unwrap(), "started");
    until("the end of its output", || !mark.exists()).await;
    world.shut_down().await;
}

#[test]
fn a_shutdown_ends_every_process() {
    alone("with_workers::lifetimes::a_shutdown_ends_every_process", async {
        for isolation in [Isolation::Process, Isolation::Task { processes: 2 }] {
            let world = World::with(SupervisorSettings { isolation, ..settings("agents:agent") }).await;
            let mut asleep = world.start("sleep");
            assert!(matches!(asleep.next().await, Said::Waiting(..)));
            let stubborn = world.start("stubborn");
            let supervisor = world.supervisor.clone();
            within(supervisor.shutdown(Duration::from_millis(50))).await;
            assert_eq!(mine(), Vec::<u32>::new());
            for turn in [asleep, stubborn] {
                assert_eq!(turn.outcome().await.unwrap_err().code, "server_restarted");
            }
            assert_eq!(world.run("echo late").await.unwrap_err().code, "server_restarted");
        }
    });
}

#[test]
fn workers_that_are_not_forked_end_too() {
    alone("with_workers::lifetimes::workers_that_are_not_forked_end_too", async {
        let world = World::with(settings("threaded:agent")).await;
        world.run("echo hello").await.unwrap();
        world.shut_down().await;
        assert_eq!(mine(), Vec::<u32>::new());
    });
}

#[tokio::test]
async fn a_turn_at_work_may_finish_during_a_shutdown() {
    let world = World::tasks(1).await;
    let turns: Vec<Turn> = (0..5).map(|_| world.start("step abc")).collect();
    // They have reached their worker before it is told to end.
    let last = world.run("echo done").await;
    within(world.supervisor.shutdown(Duration::from_secs(30))).await;
    assert_eq!(last.unwrap(), "done");
    for turn in turns {
        assert_eq!(turn.outcome().await.unwrap(), "ABC");
    }
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_people() {
    let world = World::processes().await;
    let mut turn = world.start("ask color");
    while !matches!(turn.next().await, Said::Waiting(..)) {}
    let begun = Instant::now();
    within(world.supervisor.shutdown(Duration::from_secs(3600))).await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(turn.outcome().await.unwrap_err().code, "server_restarted");
}

#[tokio::test]
async fn what_is_at_work_is_gone_before_another_server_takes_it_up_and_what_waits_for_people_is_not() {
    let world = World::processes().await;
    let (mut asking, mut working) = (world.start("ask color"), world.start("block"));
    asking.waits().await;
    assert!(matches!(working.next().await, Said::Replayed(_)));
    // By now the supervisor knows that the first one waits.
    assert_eq!(world.run("echo hello").await.unwrap(), "hello");
    within(world.supervisor.end_work()).await;
    assert_eq!(working.outcome().await.unwrap_err().code, "server_restarted");
    assert!(asking.is_quiet());
    world.shut_down().await;
}

#[tokio::test]
async fn a_stopped_turn_ends_in_a_moment() {
    let world = World::processes().await;
    let mut turn = world.start("sleep");
    assert!(matches!(turn.next().await, Said::Waiting(..)));
    world.cancel(&turn);
    assert_eq!(world.run("echo next").await.unwrap(), "next");
    world.shut_down().await;
    assert!(turn.is_quiet());
}

#[test]
fn a_stopped_turn_that_does_not_obey_is_killed() {
    alone("with_workers::lifetimes::a_stopped_turn_that_does_not_obey_is_killed", async {
        let world = World::processes().await;
        for action in ["stubborn", "block"] {
            let mut turn = world.start(action);
            assert!(matches!(turn.next().await, Said::Waiting(..) | Said::Replayed(_)));
            // Its own among them: where none was ready yet, that is the first that is, and may be the youngest.
            let children = mine();
            world.cancel(&turn);
            until("the end of a child", || children.iter().any(|pid| !exists(&pid.to_string()))).await;
            assert!(turn.is_quiet());
        }
        world.shut_down().await;
    });
}

#[tokio::test]
async fn a_turn_that_is_stopped_before_it_begins_never_does() {
    let world = World::processes().await;
    let mut turns: Vec<Turn> = (0..20).map(|_| world.start("step abc")).collect();
    for turn in &turns {
        world.cancel(turn);
    }
    assert_eq!(world.run("echo next").await.unwrap(), "next");
    world.shut_down().await;
    assert!(turns.iter_mut().all(Turn::is_quiet));
}

#[test]
fn an_idle_child_that_dies_is_replaced() {
    alone("with_workers::lifetimes::an_idle_child_that_dies_is_replaced", async {
        let world = World::processes().await;
        until("two idle children", || mine().len() == 3).await;
        let zygote = *mine().first().unwrap();
        for child in descendants(zygote) {
            std::process::Command::new("kill").args(["-9", &child.to_string()]).status().unwrap();
            until("its end", || !exists(&child.to_string())).await;
        }
        until("two idle children", || mine().len() == 3).await;
        assert_eq!(world.run("echo fine").await.unwrap(), "fine");
        world.shut_down().await;
    });
}

#[test]
fn a_zygote_that_dies_is_replaced() {
    alone("with_workers::lifetimes::a_zygote_that_dies_is_replaced", async {
        let world = World::processes().await;
        let mut turn = world.start("sleep");
        assert!(matches!(turn.next().await, Said::Waiting(..)));
        let before = mine();
        std::process::Command::new("kill").args(["-9", &before[0].to_string()]).status().unwrap();
        assert_eq!(turn.outcome().await.unwrap_err().code, "worker_exited");
        until("the end of its children", || before.iter().all(|pid| !exists(&pid.to_string()))).await;
        assert_eq!(world.run("echo again").await.unwrap(), "again");
        world.shut_down().await;
        assert_eq!(mine(), Vec::<u32>::new());
    });
}

/// The victim of the test below, which starts it by its name; on its own it does nothing.
#[test]
fn serve_until_killed() {
    only_again("with_workers::lifetimes::serve_until_killed", async {
        let world = World::processes().await;
        let mut turn = world.start("sleep");
        assert!(matches!(turn.next().await, Said::Waiting(..)));
        until("two idle children", || mine().len() == 4).await;
        let pids: Vec<String> = mine().iter().map(u32::to_string).collect();
        println!("pids {}", pids.join(" "));
        std::future::pending().await
    });
}

#[tokio::test]
async fn no_process_outlives_a_killed_server() {
    let mut server = again("with_workers::lifetimes::serve_until_killed").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.contains("pids ")).unwrap();
    let pids: Vec<String> = line.split("pids ").nth(1).unwrap().split(' ').map(str::to_owned).collect();
    assert!(pids.len() == 4 && pids.iter().all(|pid| exists(pid)));
    server.kill().unwrap();
    server.wait().unwrap();
    until("the end of all its processes", || pids.iter().all(|pid| !is_alive(pid))).await;
}

/// Whether a process runs; its new parent may take its time to reap it.
fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}
