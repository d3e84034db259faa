//! A supervisor with real Python workers and a made-up engine, and what tests look at.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use hitl::domain::journal::{Entry, RecordedEntry, StepResult};
use hitl::domain::message::ChatMessage;
use hitl::domain::session::Failure;
use hitl::domain::{InterruptId, SessionId, Timestamp, TurnId};
use hitl::engine::ports::dispatch::{Delivery, Dispatch, Lost, TurnOrder};
use hitl::supervisor::Supervisor;
use hitl::supervisor::settings::{Isolation, SupervisorSettings};
use serde_json::Value;
use tokio::sync::mpsc;
use uuid::Uuid;

pub use super::inbox::{Inbox, Said, recorded, started};

/// One turn, as the engine sees it.
pub struct Turn {
    pub id: TurnId,
    pub session: SessionId,
    heard: mpsc::UnboundedReceiver<Said>,
}

impl Turn {
    /// The next word about it.
    pub async fn next(&mut self) -> Said {
        within(self.heard.recv()).await.unwrap()
    }

    /// What it ended with.
    pub async fn outcome(mut self) -> Result<String, Failure> {
        loop {
            match self.next().await {
                Said::Ended(content, _) => return Ok(content.unwrap_or_default()),
                Said::Failed(failure) => return Err(failure),
                Said::Lost(Lost::Exited { message }) => return Err(Failure::new("worker_exited", message)),
                Said::Lost(Lost::Violation { message }) => return Err(Failure::new("worker_protocol", message)),
                Said::Lost(Lost::Stopping) => return Err(Failure::server_restarted()),
                Said::Lost(other) => panic!("{other:?}"),
                _ => {}
            }
        }
    }

    /// Waits until it waits for people and timers.
    pub async fn waits(&mut self) {
        while !matches!(self.next().await, Said::Waiting(..)) {}
    }

    /// The next question, and where it stands.
    pub async fn asked(&mut self) -> (InterruptId, String, u64) {
        loop {
            if let Said::Ask(id, kind, index) = self.next().await {
                return (id, kind, index);
            }
        }
    }

    /// The result of the next step.
    pub async fn step(&mut self) -> String {
        loop {
            match self.next().await {
                Said::Step(_, StepResult::Value(value)) => return value.as_str().unwrap().to_owned(),
                Said::Ended(..) | Said::Failed(_) | Said::Lost(_) => panic!("it is over"),
                _ => {}
            }
        }
    }

    /// Whether nothing was said that nobody has read.
    pub fn is_quiet(&mut self) -> bool {
        self.heard.try_recv().is_err()
    }
}

/// A supervisor and its engine.
pub struct World {
    pub supervisor: Arc<Supervisor>,
    pub inbox: Arc<Inbox>,
}

impl World {
    /// With a fresh process for each turn.
    pub async fn processes() -> Self {
        Self::with(settings("agents:agent")).await
    }

    /// With `processes` shared workers.
    pub async fn tasks(processes: usize) -> Self {
        Self::with(SupervisorSettings { isolation: Isolation::Task { processes }, ..settings("agents:agent") }).await
    }

    pub async fn with(settings: SupervisorSettings) -> Self {
        captured_log();
        Self::over(within(Supervisor::start(settings)).await.unwrap())
    }

    pub fn over(supervisor: Arc<Supervisor>) -> Self {
        let inbox = Arc::new(Inbox::default());
        supervisor.attach(&inbox);
        Self { supervisor, inbox }
    }

    /// Starts a turn.
    pub fn start(&self, content: &str) -> Turn {
        self.start_with(content, Vec::new())
    }

    pub fn start_with(&self, content: &str, state: Vec<ChatMessage>) -> Turn {
        self.start_order(content, state, vec![self.started("3.11")])
    }

    /// The beginning of a journal of the code that runs here.
    pub fn started(&self, python: &str) -> RecordedEntry {
        started(&self.supervisor.runtime().code, python)
    }

    /// Starts a turn that has a journal already.
    pub fn start_order(&self, content: &str, state: Vec<ChatMessage>, journal: Vec<RecordedEntry>) -> Turn {
        self.begin(content, state, journal, false)
    }

    fn begin(&self, content: &str, state: Vec<ChatMessage>, journal: Vec<RecordedEntry>, alone: bool) -> Turn {
        let (id, session) = (TurnId(Uuid::now_v7()), SessionId(Uuid::now_v7()));
        let heard = self.inbox.open(id, journal.clone());
        let turn = Turn { id, session, heard };
        self.supervisor.start(TurnOrder { alone, ..order(&turn, 1, content, state, journal) });
        turn
    }

    /// Starts a turn that has lost a worker before.
    pub fn start_alone(&self, content: &str) -> Turn {
        self.begin(content, Vec::new(), vec![self.started("3.11")], true)
    }

    /// Starts a turn anew, as after a claim.
    pub fn start_again(&self, turn: &Turn, content: &str) -> u64 {
        let epoch = self.inbox.claim(turn.id);
        self.supervisor.start(order(turn, epoch, content, Vec::new(), self.inbox.journal(turn.id)));
        epoch
    }

    /// Starts a turn anew at its first epoch, as after a failover that has taken back that this was given.
    pub fn start_anew(&self, turn: &Turn, content: &str) {
        self.supervisor.park(turn.id);
        self.supervisor.start(order(turn, 1, content, Vec::new(), self.inbox.journal(turn.id)));
    }

    /// Somebody answers: the answer's index.
    pub fn answer(&self, turn: &Turn, interrupt: InterruptId, value: Value) -> u64 {
        let index = self.inbox.append(turn.id, Entry::Answer { interrupt_id: interrupt, value: value.clone() });
        self.supervisor
            .deliver(turn.id, Delivery::Answer { index, at: Timestamp::from_millis(2), interrupt, value, by: None });
        index
    }

    /// Nobody has answered in time: the entry's index.
    pub fn expire(&self, turn: &Turn, interrupt: InterruptId) -> u64 {
        let index = self.inbox.append(turn.id, Entry::Expire { interrupt_id: interrupt });
        self.supervisor.deliver(turn.id, Delivery::Expired { index, at: Timestamp::from_millis(2), interrupt });
        index
    }

    /// Runs a turn to its end.
    pub async fn run(&self, content: &str) -> Result<String, Failure> {
        self.start(content).outcome().await
    }

    /// Cancels a turn as the engine does.
    pub fn cancel(&self, turn: &Turn) {
        self.inbox.settle(turn.id);
        self.supervisor.stop(turn.id, "Turn cancelled");
    }

    pub async fn shut_down(self) {
        within(self.supervisor.shutdown(Duration::ZERO)).await;
    }
}

fn order(turn: &Turn, epoch: u64, content: &str, state: Vec<ChatMessage>, journal: Vec<RecordedEntry>) -> TurnOrder {
    let message = Arc::new(ChatMessage { content: Some(content.to_owned()), ..ChatMessage::default() });
    TurnOrder {
        turn: turn.id,
        epoch,
        session: turn.session,
        message,
        state,
        journal,
        answered_by: BTreeMap::new(),
        sent_by: None,
        alone: false,
    }
}

/// The interpreter itself: what is on the path may be a script that sets variables and then starts it.
fn python() -> PathBuf {
    static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
        let named = std::env::var_os("HITL_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let asked =
            std::process::Command::new(named).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        String::from_utf8(asked.stdout).unwrap().trim().into()
    });
    PYTHON.clone()
}

/// Settings for an agent in this directory.
pub fn settings(agent: &str) -> SupervisorSettings {
    let python = python();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut settings = SupervisorSettings::new(python, agent).unwrap();
    settings.environment.push(("PYTHONPATH".into(), root.join("python").into()));
    settings.paths = vec![root.join("tests/supervisor")];
    settings.stop_grace = Duration::from_millis(300);
    settings.workers = 2;
    settings
}

/// Settings for scripted workers, one for each turn.
pub fn scripted() -> SupervisorSettings {
    settings("scripted:agent")
}

/// Settings for scripted workers that have many turns.
pub fn shared(processes: usize) -> SupervisorSettings {
    SupervisorSettings { isolation: Isolation::Task { processes }, ..scripted() }
}

/// Fails instead of hanging.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(240), future).await.expect("took more than four minutes")
}

/// Waits for something that nobody announces.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(120), waited).await.is_ok(), "{what} did not happen");
}

/// Whether a process is there, dead ones that nobody reaped included.
pub fn exists(pid: &str) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}

/// Sends a signal to a process.
pub fn signal(name: &str, pid: &str) {
    assert!(std::process::Command::new("kill").args([name, pid]).status().unwrap().success());
}

/// Processes below `pid`: all descendants, dead ones that nobody reaped included.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(child) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name is in parentheses and may hold anything; state and parent follow.
        let mut after = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(1);
        parents.extend(after.next().and_then(|parent| parent.parse::<u32>().ok()).map(|parent| (child, parent)));
    }
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

/// Everything that was logged in this process so far.
pub fn captured_log() -> String {
    static LOG: OnceLock<Captured> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let log = Captured::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        log
    });
    String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned()
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a test in a process of its own, because it looks at what the whole process has. `name` is the test's path.
pub fn alone(name: &str, body: impl Future<Output = ()>) {
    if !only_again(name, body) {
        let output = again(name).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    }
}

/// Runs `body` in the process that [`again`] started for it; whether this is it.
pub fn only_again(name: &str, body: impl Future<Output = ()>) -> bool {
    let is_it = std::env::var_os(ALONE).is_some_and(|alone| alone == name);
    if is_it {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(body);
    }
    is_it
}

/// The command that runs the test `name`, and only it, in this executable.
pub fn again(name: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(ALONE, name);
    command
}

const ALONE: &str = "HITL_TEST_ALONE";
