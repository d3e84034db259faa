//! The rows by which processes that share a database know of each other.

use std::collections::BTreeSet;
use std::process;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::system::uname;
use uuid::Uuid;

use crate::domain::Error;
use crate::domain::journal::CodeVersion;
use crate::store::BoxFuture;
use crate::store::shared::options::OptionsDigests;

/// One life of a process that has the store: nobody else, before or after, is called the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub Uuid);

/// What a process wants with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// It serves, beside others that do.
    Server,
    /// It runs agents without a server, beside others that do.
    Run,
    /// It changes what is everybody's, such as keys, beside whoever has the store.
    Tool,
}

impl ServerKind {
    /// As it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Run => "run",
            Self::Tool => "tool",
        }
    }

    /// The kind of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Server, Self::Run, Self::Tool].into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether both cannot have the store at the same time: a server would take up the turns of a run.
    pub fn excludes(self, other: Self) -> bool {
        matches!((self, other), (Self::Server, Self::Run) | (Self::Run, Self::Server))
    }
}

/// A process, as its row names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    /// Which life of it.
    pub id: ServerId,
    /// What it wants.
    pub kind: ServerKind,
    /// The name of its machine, for people.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// Where its number means something; `None` where that cannot be told.
    pub machine: Option<String>,
    /// Which of all processes that ever had its number there.
    pub process: Option<String>,
    /// What it is there for.
    pub role: ServerRole,
}

/// What a process that has the store does with it, as it says itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerRole {
    /// The agent whose sessions are its; `None` for a process that serves none.
    pub agent: Option<String>,
    /// Whether clients may come to it.
    pub serves_http: bool,
    /// How many turns may be at work there; 0 where it runs none.
    pub workers: usize,
    /// What it was told that others should be told, too; `None` of one that says nothing of it.
    pub options: Option<OptionsDigests>,
    /// What may change while it is there.
    pub running: RunningNow,
}

/// What a server runs and goes by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningNow {
    /// The code of its agent ([`crate::domain::cluster::routing::routed_code`]); `None` where it runs no turns.
    pub code: Option<CodeVersion>,
    /// The digest of the policy that holds there.
    pub policy: Option<String>,
}

impl ServerRow {
    /// This process, as somebody new.
    pub fn of_this_process(kind: ServerKind, role: ServerRole) -> Self {
        let pid = process::id();
        Self {
            id: ServerId(Uuid::new_v4()),
            kind,
            host: uname().nodename().to_string_lossy().into_owned(),
            pid,
            machine: machine(),
            process: process_of(pid),
            role,
        }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        format!("{}-{}", self.host, self.pid)
    }
}

/// Another process that has the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherServer {
    /// Who.
    pub row: ServerRow,
    /// How often it was counted up.
    pub beat: u64,
    /// How long ago that was, by the database, in milliseconds.
    pub silent_ms: u64,
    /// Its release; empty where that did not say so.
    pub version: String,
    /// How many turns were at work there then.
    pub at_work: u64,
    /// Whether it ends, or is asked to.
    pub is_draining: bool,
    /// When it came, by the database, in milliseconds since 1970.
    pub started_at: i64,
}

impl OtherServer {
    /// Whether turns of `agent` that nobody has are run there.
    pub fn runs_turns_of(&self, agent: &str) -> bool {
        self.row.kind == ServerKind::Server
            && self.row.role.workers > 0
            && self.row.role.agent.as_deref() == Some(agent)
            && !self.is_draining
    }

    /// What was known of it `since` it was looked at, for whoever takes it for dead after `death`.
    pub fn snapshot(self, since: Duration, death: Duration) -> ServerSnapshot {
        let silent = Duration::from_millis(self.silent_ms) + since;
        ServerSnapshot::new(self.row, self.version, self.at_work, self.is_draining, (silent, death))
    }

    /// Whether it ran on the machine of `me`, and does not any more.
    pub fn is_gone_beside(&self, me: &ServerRow) -> bool {
        let is_here = self.row.machine.is_some() && self.row.machine == me.machine && self.row.process.is_some();
        is_here
            && match look_at_process(self.row.pid) {
                SeenProcess::Started(at) => Some(at) != self.row.process,
                SeenProcess::Gone => true,
                // Its beats tell.
                SeenProcess::Hidden => false,
            }
    }
}

/// How a server is, as `hitl servers` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    /// It beats.
    Alive,
    /// It ends, or is asked to.
    Draining,
    /// Its beats have stopped: whoever looks takes it for dead.
    Silent,
}

impl ServerStatus {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Alive, Self::Draining, Self::Silent];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Draining => "draining",
            Self::Silent => "silent",
        }
    }
}

/// One of the servers that share a store, itself among them, as one of them knew it at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSnapshot {
    /// Who.
    pub row: ServerRow,
    /// Its release; empty where it did not say so.
    pub version: String,
    /// How many turns were at work there when it beat last.
    pub at_work: u64,
    /// Whether it ends, or is asked to.
    pub is_draining: bool,
    /// How long ago its last beat was, in milliseconds.
    pub silent_ms: u64,
    /// What comes of the two.
    pub status: ServerStatus,
}

impl ServerSnapshot {
    /// That of a server whose last beat was `silent` ago, and which is dead to others after `death`.
    pub fn new(row: ServerRow, version: String, at_work: u64, is_draining: bool, times: (Duration, Duration)) -> Self {
        let (silent, death) = times;
        let status = match is_draining {
            _ if silent >= death => ServerStatus::Silent,
            true => ServerStatus::Draining,
            false => ServerStatus::Alive,
        };
        let silent_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
        Self { row, version, at_work, is_draining, silent_ms, status }
    }
}

/// In what servers are not alike although they should be, as far as their rows tell. One that ends does not count: it may
/// be what is being replaced.
pub fn differences(servers: &[ServerSnapshot]) -> Vec<&'static str> {
    let stay = || servers.iter().filter(|server| !server.is_draining);
    let agents: BTreeSet<_> = stay().map(|server| &server.row.role.agent).collect();
    let versions: BTreeSet<_> = stay().map(|server| &server.version).collect();
    // One that runs no turns has none, and one of an earlier release says nothing of it.
    let codes: BTreeSet<_> = stay().filter_map(|server| server.row.role.running.code.as_ref()).collect();
    let options = || stay().filter_map(|server| server.row.role.options.as_ref());
    let of_sessions: BTreeSet<_> = options().map(|digests| &digests.of_sessions).collect();
    let of_requests: BTreeSet<_> = options().filter_map(|digests| digests.of_requests.as_ref()).collect();
    let policies: BTreeSet<_> = stay().map(|server| &server.row.role.running.policy).collect();
    let differ = [
        ("agent", agents.len() > 1),
        ("version", versions.len() > 1),
        ("code", codes.len() > 1),
        ("options", of_sessions.len() > 1 || of_requests.len() > 1),
        ("policy", policies.len() > 1),
    ];
    differ.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
}

/// What came of registering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// The row is there.
    Yes,
    /// It is not: these are there, of which at least one cannot have the store at the same time.
    Occupied(Vec<OtherServer>),
}

/// The rows, in a database. Each call is one transaction.
pub trait ServerRows: Send + Sync + 'static {
    /// Adds the row, unless somebody excludes it ([`ServerKind::excludes`]). One that is there already stays.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`]: then it may be there.
    fn register(&self, row: ServerRow) -> BoxFuture<'static, Result<Registered, Error>>;

    /// The rows of all others.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`].
    fn others(&self, id: ServerId) -> BoxFuture<'static, Result<Vec<OtherServer>, Error>>;

    /// The same, for somebody who cannot wait for the next look: whatever becomes of it, no beat waits for it.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`].
    fn look(&self, id: ServerId) -> BoxFuture<'static, Result<Vec<OtherServer>, Error>> {
        self.others(id)
    }

    /// Counts the row up, and notes how many turns are at work, what it runs, and whether the server ends; one that was asked to
    /// stays so. Whether it is to end; `None` where the row is not there.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`].
    fn beat(
        &self,
        id: ServerId,
        at_work: u64,
        running: RunningNow,
        is_draining: bool,
    ) -> BoxFuture<'static, Result<Option<bool>, Error>>;

    /// Takes away the row of a server that seems to be dead, if it is still at `beat`; whether it was. By then nothing that
    /// the dead one had begun to commit can come about any more.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`].
    fn bury(&self, id: ServerId, beat: u64) -> BoxFuture<'static, Result<bool, Error>>;

    /// Takes the row away, by its own server.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`].
    fn leave(&self, id: ServerId) -> BoxFuture<'static, Result<(), Error>>;
}

/// This machine since it was started, as seen by those who share its process numbers.
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let numbers = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), numbers.display()))
}

/// What is seen of the process of a number.
enum SeenProcess {
    /// When it was started, by the machine.
    Started(String),
    /// There is none, or one that has ended and was not waited for.
    Gone,
    /// There is one, of which nothing is shown: those of other users need not be (`hidepid`, `ProtectProc` of systemd), and whoever
    /// has no descriptor left sees none.
    Hidden,
}

/// When the process of that number was started, where that is shown.
fn process_of(pid: u32) -> Option<String> {
    match look_at_process(pid) {
        SeenProcess::Started(at) => Some(at),
        SeenProcess::Gone | SeenProcess::Hidden => None,
    }
}

fn look_at_process(pid: u32) -> SeenProcess {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        // Nobody is hidden from this, and it needs no descriptor.
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let is_gone = number.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH));
        return if is_gone { SeenProcess::Gone } else { SeenProcess::Hidden };
    };
    // The name before the last parenthesis may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or(vec![], |(_, rest)| rest.split_whitespace().collect());
    match (fields.first(), fields.get(19)) {
        (Some(&("Z" | "X")), _) => SeenProcess::Gone,
        (Some(_), Some(started)) => SeenProcess::Started((*started).to_owned()),
        _ => SeenProcess::Hidden,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    const ALONE: &str = "HITL_TEST_WITHOUT_DESCRIPTORS";

    fn me() -> ServerRow {
        ServerRow::of_this_process(ServerKind::Server, ServerRole::default())
    }

    fn other(pid: u32, process: Option<String>) -> OtherServer {
        let row = ServerRow { pid, process, ..me() };
        OtherServer {
            row,
            beat: 0,
            silent_ms: 0,
            version: String::new(),
            at_work: 0,
            is_draining: false,
            started_at: 0,
        }
    }

    #[test]
    fn turns_are_run_by_a_server_of_their_agent_that_has_workers_and_stays() {
        let mut server = other(1, None);
        server.row.role = ServerRole { agent: Some("a:b".to_owned()), workers: 1, ..ServerRole::default() };
        assert!(server.runs_turns_of("a:b") && !server.runs_turns_of("a:c"));
        for spoil in [
            (|it| it.is_draining = true) as fn(&mut OtherServer),
            |it| it.row.role.workers = 0,
            |it| it.row.kind = ServerKind::Tool,
        ] {
            let mut spoilt = server.clone();
            spoil(&mut spoilt);
            assert!(!spoilt.runs_turns_of("a:b"), "{spoilt:?}");
        }
    }

    #[test]
    fn a_server_is_alive_or_draining_until_its_beats_have_stopped_for_as_long_as_the_dead() {
        let (second, death) = (Duration::from_secs(1), Duration::from_secs(10));
        let status = |silent_ms, is_draining| {
            let server = OtherServer { silent_ms, is_draining, ..other(1, None) };
            let snapshot = server.snapshot(second, death);
            assert_eq!(snapshot.silent_ms, silent_ms + 1000);
            snapshot.status.as_str()
        };
        assert_eq!([status(0, false), status(8_999, true), status(9_000, false)], ["alive", "draining", "silent"]);
        assert_eq!(status(9_000, true), "silent");
        assert_eq!(ServerStatus::ALL.map(ServerStatus::as_str), ["alive", "draining", "silent"]);
    }

    #[test]
    fn servers_that_stay_differ_by_their_agents_and_releases() {
        let server = |agent: &str, version: &str, is_draining| {
            let mut server = OtherServer { version: version.to_owned(), is_draining, ..other(1, None) };
            server.row.role.agent = Some(agent.to_owned());
            server.snapshot(Duration::ZERO, Duration::from_secs(1))
        };
        assert_eq!(differences(&[]), [""; 0]);
        assert_eq!(differences(&[server("a:b", "1", false), server("a:b", "1", false)]), [""; 0]);
        assert_eq!(differences(&[server("a:b", "1", true), server("a:b", "2", false)]), [""; 0]);
        assert_eq!(differences(&[server("a:b", "1", false), server("a:b", "2", false)]), ["version"]);
        assert_eq!(differences(&[server("a:b", "1", false), server("a:c", "2", false)]), ["agent", "version"]);
    }

    #[test]
    fn servers_that_stay_differ_by_their_code_options_and_policies_where_they_say_so() {
        let server = |code: Option<&str>, options: Option<&str>, policy: Option<&str>| {
            let mut server = other(1, None);
            let text = |text: Option<&str>| text.map(str::to_owned);
            let running = RunningNow { code: text(code), policy: text(policy) };
            server.row.role =
                ServerRole { options: options.map(OptionsDigests::parse), running, ..ServerRole::default() };
            server.snapshot(Duration::ZERO, Duration::from_secs(1))
        };
        let full = server(Some("v1"), Some("o"), Some("p"));
        assert_eq!(differences(&[full.clone(), server(None, None, Some("p"))]), [""; 0]);
        assert_eq!(differences(&[full.clone(), server(Some("v2"), Some("o"), Some("p"))]), ["code"]);
        assert_eq!(differences(&[full.clone(), server(Some("v1"), Some("x"), None)]), ["options", "policy"]);
        // One that takes requests beside one that does not.
        let requests = |digests| server(None, Some(digests), Some("p"));
        assert_eq!(differences(&[full.clone(), requests("o/r"), requests("o/r")]), [""; 0]);
        assert_eq!(differences(&[full.clone(), requests("x/r")]), ["options"]);
        assert_eq!(differences(&[full.clone(), requests("o/r"), requests("o/s")]), ["options"]);
    }

    #[test]
    fn who_ran_here_and_has_ended_is_gone() {
        let me = me();
        assert!(me.machine.is_some() && me.process.is_some());
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let there = other(child.id(), process_of(child.id()));
        assert!(!there.is_gone_beside(&me));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(there.is_gone_beside(&me));
    }

    #[test]
    fn who_lives_and_cannot_be_looked_at_is_not_gone() {
        if std::env::var_os(ALONE).is_none() {
            // In a process of its own, for the next lines take everybody's descriptors.
            let name = "store::shared::servers::tests::who_lives_and_cannot_be_looked_at_is_not_gone";
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let ended = alone.args(["--exact", name, "--test-threads=1"]).env(ALONE, "").output().unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
            return;
        }
        let me = me();
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let there = other(child.id(), process_of(child.id()));
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum }).unwrap();
        let is_gone_while_it_lives = there.is_gone_beside(&me);
        child.kill().unwrap();
        child.wait().unwrap();
        let is_gone_when_it_has_ended = there.is_gone_beside(&me);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        assert!(process_of(me.pid).is_some());
        assert_eq!((is_gone_while_it_lives, is_gone_when_it_has_ended), (false, true));
    }

    #[test]
    fn a_process_that_has_the_number_of_another_is_not_that_one() {
        let me = me();
        assert!(other(me.pid, Some("0".to_owned())).is_gone_beside(&me));
        assert!(!other(me.pid, me.process.clone()).is_gone_beside(&me));
    }

    #[test]
    fn nobody_knows_of_a_process_of_another_machine() {
        let me = me();
        let mut elsewhere = other(me.pid, Some("0".to_owned()));
        elsewhere.row.machine = Some("another".to_owned());
        assert!(!elsewhere.is_gone_beside(&me));
        elsewhere.row.machine = None;
        assert!(!elsewhere.is_gone_beside(&ServerRow { machine: None, ..me }));
    }
}
