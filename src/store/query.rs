//! Lists: filters, page sizes and cursors.

use crate::domain::audit::Action;
use crate::domain::search::Needle;
use crate::domain::session::Session;
use crate::domain::status::{InterruptStatus, NoticeStatus, Status};
use crate::domain::{InterruptId, SessionId, Timestamp, TurnId};

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<u64>,
}

/// In which order sessions are listed: of their making.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The first one first.
    #[default]
    Oldest,
    /// The last one first.
    Newest,
}

impl Order {
    /// The order of this name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "oldest" => Some(Self::Oldest),
            "newest" => Some(Self::Newest),
            _ => None,
        }
    }
}

/// A session as lists have it: nothing of what may be long, which many of at once are too much of.
#[derive(Debug, Clone, PartialEq)]
pub struct TitledSession {
    /// Its id.
    pub id: SessionId,
    /// Which agent handles it.
    pub agent: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// How many messages it remembers.
    pub total_messages: usize,
    /// Where it stands.
    pub status: Status,
    /// The turn that is open, or can be taken up again.
    pub turn: Option<TurnId>,
    /// What it is called: see [`crate::domain::naming`]. `None` where nothing was said yet that has words.
    pub title: Option<String>,
}

impl TitledSession {
    /// A session with its title.
    pub fn of(session: &Session, title: Option<String>) -> Self {
        Self {
            id: session.id,
            agent: session.agent.clone(),
            created_at: session.created_at,
            updated_at: session.updated_at,
            total_messages: session.total_messages,
            status: session.status(),
            turn: session.turn().or_else(|| session.retry().map(|retry| retry.turn)),
            title,
        }
    }
}

/// What sessions are searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSearch {
    /// What the title or the id says.
    pub needle: Needle,
    /// At most so many sessions are looked at for one page, 1 or more: no index leads to a part of a title. A page may have
    /// none then and still not be the last.
    pub within: usize,
}

impl SessionSearch {
    /// Whether a session is one of those that are looked for.
    pub fn finds(&self, id: SessionId, title: Option<&str>) -> bool {
        self.needle.is_in(&id.to_string()) || title.is_some_and(|title| self.needle.is_in(title))
    }
}

/// Which sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionQuery {
    /// In which order.
    pub order: Order,
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only the one with this id.
    pub id: Option<SessionId>,
    /// Only those that a search finds.
    pub search: Option<SessionSearch>,
    /// At most so many; 1 or more.
    pub limit: usize,
    /// Where the page begins: a [`Page::next`].
    pub cursor: Option<u64>,
}

/// Which rows of the audit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditQuery {
    /// Only those of this session.
    pub session_id: Option<SessionId>,
    /// Only those about this interrupt.
    pub interrupt_id: Option<InterruptId>,
    /// Only what this one did.
    pub actor: Option<String>,
    /// Only this action.
    pub action: Option<Action>,
    /// Only what was done after this time.
    pub after: Option<Timestamp>,
    /// At most so many; 1 or more.
    pub limit: usize,
    /// Where the page begins: a [`Page::next`].
    pub cursor: Option<u64>,
}

impl AuditQuery {
    /// Whether rows may be looked at that no index leads to.
    pub fn is_search(&self) -> bool {
        let is_narrow = self.session_id.is_some() || self.interrupt_id.is_some();
        !is_narrow && (self.action.is_some() || self.after.is_some())
    }
}

/// Which notices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NoticeQuery {
    /// Only those with this status.
    pub status: Option<NoticeStatus>,
    /// Only those of this session.
    pub session_id: Option<SessionId>,
    /// At most so many; 1 or more.
    pub limit: usize,
    /// Where the page begins: a [`Page::next`].
    pub cursor: Option<u64>,
}

/// Which interrupts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InterruptQuery {
    /// Only those with this status.
    pub status: Option<InterruptStatus>,
    /// Only those of this type.
    pub kind: Option<String>,
    /// Only approvals of this tool (`tool_name` of the payload).
    pub tool: Option<String>,
    /// Only those of this session.
    pub session_id: Option<SessionId>,
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those asked after this time.
    pub created_after: Option<Timestamp>,
    /// Only those that say this: in their payload, message, or the agent's name.
    pub says: Option<Needle>,
    /// Only those that somebody has snoozed, or has not, at that time.
    pub snoozed: Option<(bool, Timestamp)>,
    /// Only those that are somebody's at that time.
    pub claimed_by: Option<(String, Timestamp)>,
    /// At most so many; 1 or more.
    pub limit: usize,
    /// Where the page begins: a [`Page::next`].
    pub cursor: Option<u64>,
}

impl InterruptQuery {
    /// Whether rows may be looked at that no index leads to.
    pub fn is_search(&self) -> bool {
        let is_narrow = self.session_id.is_some() || self.claimed_by.is_some();
        let is_rare = self.status.is_some_and(|status| status != InterruptStatus::Pending);
        let is_unindexed = is_rare || self.kind.is_some() || self.agent.is_some() || self.created_after.is_some();
        self.says.is_some() || (!is_narrow && is_unindexed)
    }
}
