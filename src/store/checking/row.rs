//! A row that is looked at, by the names of its columns.

use uuid::Uuid;

use crate::store::copying::lines;
use crate::store::copying::tables::{Column, Table};

pub(super) struct CheckedRow {
    table: &'static Table,
    cells: Vec<Option<String>>,
}

impl CheckedRow {
    /// `None` where the line is none of the table.
    pub(super) fn read(table: &'static Table, line: &[u8]) -> Option<Self> {
        let cells = lines::cells(line).filter(|cells| cells.len() == table.columns.len())?;
        Some(Self { table, cells })
    }

    pub(super) fn table(&self) -> &'static str {
        self.table.name
    }

    /// Which row it is, for people.
    pub(super) fn place(&self) -> String {
        match (self.table(), self.id("id").or(self.id("turn")), self.text("idx")) {
            ("journal", Some(turn), Some(idx)) => format!("entry {idx} of turn {turn}"),
            ("messages", _, Some(idx)) => format!("message {idx}"),
            (table, Some(id), _) => format!("a row of {table} ({id})"),
            (table, None, _) => format!("a row of {table}"),
        }
    }

    /// The session that it is, or belongs to.
    pub(super) fn session(&self) -> Option<Uuid> {
        self.id(if self.table() == "sessions" { "id" } else { "session" })
    }

    /// Whether what it lacks is its session, which is told in other words.
    pub(super) fn is_orphan_at(&self, column: &str) -> bool {
        column == "session" && matches!(self.table(), "turns" | "interrupts") && !self.has("session")
    }

    /// The columns that have something.
    pub(super) fn cells(&self) -> impl Iterator<Item = (&'static Column, &str)> {
        self.table.columns.iter().zip(&self.cells).filter_map(|(column, cell)| Some((column, cell.as_deref()?)))
    }

    /// What stands there; `None` for nothing.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.cells().find(|(column, _)| column.name == name).map(|(_, text)| text)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn id(&self, name: &str) -> Option<Uuid> {
        self.text(name)?.parse().ok()
    }

    /// Whether it says yes.
    pub(super) fn is(&self, name: &str) -> bool {
        self.text(name) == Some("t")
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The ids that stand there one after the other; `None` where it is no list of them.
    pub(super) fn ids(&self, name: &str) -> Option<Vec<Uuid>> {
        let Some(written) = self.text(name) else { return Some(Vec::new()) };
        let bytes = lines::unhex(written.strip_prefix("\\x")?)?;
        let (ids, rest) = bytes.as_chunks::<16>();
        rest.is_empty().then(|| ids.iter().map(|id| Uuid::from_bytes(*id)).collect())
    }
}
