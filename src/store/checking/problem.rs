//! What does not fit in a store.

use uuid::Uuid;

/// How many problems are told one by one: where thousands of rows are wrong, one thing is.
const TOLD: usize = 1000;

/// Which kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// SQLite says that its file is damaged.
    File,
    /// A cell is not what it should be.
    Unreadable,
    /// A row belongs to a session or a turn that is not there.
    Orphan,
    /// A session does not have the messages that it counts.
    Messages,
    /// A session and its newest turn contradict each other.
    Turn,
    /// A turn waits, and nothing that could come would wake it.
    Asleep,
    /// A session, its interrupts and its turn's journal do not agree on what waits.
    Pending,
    /// An interrupt has a time to expire at, and is not looked at then.
    Expiry,
    /// Entries of a journal are missing, or there although they were removed.
    Journal,
    /// The notices of a session to one address cannot be sent in order, or not at all.
    Lane,
    /// A row of the audit was changed, left out or put in.
    Audit,
    /// Sessions or events are counted from a number that is given away.
    Counter,
}

impl ProblemKind {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Unreadable => "unreadable",
            Self::Orphan => "orphan",
            Self::Messages => "messages",
            Self::Turn => "turn",
            Self::Asleep => "asleep",
            Self::Pending => "pending",
            Self::Expiry => "expiry",
            Self::Journal => "journal",
            Self::Lane => "lane",
            Self::Audit => "audit",
            Self::Counter => "counter",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreProblem {
    /// Which kind.
    pub kind: ProblemKind,
    /// In which session; `None` where it is in none, or nobody knows.
    pub session: Option<Uuid>,
    /// What is wrong, for people; nothing that anybody said stands in it.
    pub what: String,
}

/// All that is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreProblems {
    /// The first ones.
    pub told: Vec<StoreProblem>,
    /// How many more there are.
    pub more: u64,
}

impl StoreProblems {
    pub(super) fn add(&mut self, problem: StoreProblem) {
        if self.told.len() < TOLD {
            self.told.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// The same, in an order in which two of them can be compared.
    pub(super) fn sorted(mut self) -> Self {
        self.told.sort_by(|one, other| {
            (one.session, one.kind.as_str(), &one.what).cmp(&(other.session, other.kind.as_str(), &other.what))
        });
        self
    }

    pub(super) fn say(&mut self, kind: ProblemKind, session: Option<Uuid>, what: impl Into<String>) {
        self.add(StoreProblem { kind, session, what: what.into() });
    }
}
