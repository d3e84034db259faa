//! What is copied, table by table: columns have the names that they have in PostgreSQL, and each says where SQLite keeps it.

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Kind {
    Int,
    Bool,
    Text,
    /// A text that is JSON.
    Json,
    Uuid,
    Bytes,
    /// A list of texts: `text[]` in PostgreSQL, a JSON list in SQLite.
    Names,
}

/// Where SQLite keeps a column.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Here {
    /// In one of the same name.
    Same,
    /// Nowhere; it follows from this expression.
    Derived(&'static str),
    /// In a column, read and written by expressions. Parameters are named after columns.
    Kept { column: &'static str, read: &'static str, write: &'static str },
}

/// A column of a row that is copied.
#[derive(Debug)]
pub(in crate::store) struct Column {
    pub(in crate::store) name: &'static str,
    pub(in crate::store) kind: Kind,
    pub(in crate::store) here: Here,
}

/// A table.
#[derive(Debug)]
pub(in crate::store) struct Table {
    pub(in crate::store) name: &'static str,
    pub(in crate::store) columns: &'static [Column],
    /// Whether PostgreSQL counts its rows in a column `seq`.
    pub(in crate::store) is_counted: bool,
}

const fn same(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, here: Here::Same }
}

const fn int(name: &'static str) -> Column {
    same(name, Kind::Int)
}

const fn bool(name: &'static str) -> Column {
    same(name, Kind::Bool)
}

const fn text(name: &'static str) -> Column {
    same(name, Kind::Text)
}

const fn json(name: &'static str) -> Column {
    same(name, Kind::Json)
}

const fn uuid(name: &'static str) -> Column {
    same(name, Kind::Uuid)
}

const fn bytes(name: &'static str) -> Column {
    same(name, Kind::Bytes)
}

const fn derived(name: &'static str, kind: Kind, expression: &'static str) -> Column {
    Column { name, kind, here: Here::Derived(expression) }
}

/// The session that a row is of, which SQLite knows by its number.
const SESSION: Column = Column {
    name: "session",
    kind: Kind::Uuid,
    here: Here::Kept {
        column: "session",
        read: "(SELECT id FROM sessions WHERE seq = t.session)",
        write: "(SELECT seq FROM sessions WHERE id = :session)",
    },
};

/// In an order in which each row comes after those that it refers to.
pub(in crate::store) const TABLES: &[Table] = &[
    Table {
        name: "sessions",
        is_counted: true,
        columns: &[
            int("seq"),
            uuid("id"),
            derived("version", Kind::Int, "1"),
            derived("token", Kind::Int, "random()"),
            text("agent"),
            int("created_at"),
            int("updated_at"),
            int("total_messages"),
            text("status"),
            uuid("turn"),
            bytes("pending"),
            json("response"),
            text("failure_code"),
            text("failure_message"),
            json("rules"),
            json("grants"),
            json("webhook"),
            json("abandoned"),
            derived("settled_at", Kind::Int, "CASE WHEN status IN ('idle', 'error') THEN updated_at END"),
        ],
    },
    Table { name: "messages", is_counted: false, columns: &[SESSION, int("idx"), json("message")] },
    Table {
        name: "turns",
        is_counted: true,
        columns: &[
            int("seq"),
            uuid("id"),
            SESSION,
            json("message"),
            json("webhook"),
            text("sent_by"),
            int("epoch"),
            int("created_at"),
            int("ended_at"),
            bool("parked"),
            int("wake_at"),
            int("recoveries"),
            int("worked_ms"),
            int("claimed"),
            text("impure_at"),
            json("warnings"),
            text("suspended_code"),
            Column {
                name: "compacted",
                kind: Kind::Bool,
                here: Here::Kept {
                    column: "todo",
                    read: "t.ended_at IS NOT NULL AND t.suspended_code IS NULL AND t.todo IS NULL",
                    write: "CASE WHEN :ended_at IS NULL THEN iif(:parked, NULL, 0) \
                            WHEN :suspended_code IS NULL AND NOT :compacted THEN :ended_at END",
                },
            },
        ],
    },
    Table {
        name: "journal",
        is_counted: false,
        columns: &[
            derived(
                "session",
                Kind::Uuid,
                "(SELECT s.id FROM turns u JOIN sessions s ON s.seq = u.session WHERE u.seq = t.turn)",
            ),
            Column {
                name: "turn",
                kind: Kind::Uuid,
                here: Here::Kept {
                    column: "turn",
                    read: "(SELECT id FROM turns WHERE seq = t.turn)",
                    write: "(SELECT seq FROM turns WHERE id = :turn)",
                },
            },
            int("idx"),
            int("at"),
            text("entry"),
            text("path"),
            text("kind"),
            text("name"),
            text("location"),
            json("arguments"),
            uuid("interrupt"),
            json("body"),
            int("event"),
        ],
    },
    Table {
        name: "interrupts",
        is_counted: true,
        columns: &[
            int("seq"),
            uuid("id"),
            SESSION,
            uuid("turn"),
            text("type"),
            json("payload"),
            text("status"),
            text("message"),
            bool("built_in_schema"),
            json("response_schema"),
            json("allowed_decisions"),
            text("tool"),
            text("tool_call_id"),
            text("agent"),
            text("rule"),
            text("args_digest"),
            int("created_at"),
            int("expires_at"),
            int("due_at"),
            json("value"),
            text("resolved_by"),
            int("resolved_at"),
            json("metadata"),
            text("tool_source"),
            json("args_schema"),
            text("claimed_by"),
            int("claimed_until"),
            text("snoozed_by"),
            int("snoozed_until"),
            text("sent_by"),
            json("approvers"),
            text("rule_failed"),
            json("tool_approvers"),
            bool("lets_run"),
            bool("hidden"),
        ],
    },
    Table {
        name: "replies",
        is_counted: false,
        columns: &[text("scope"), text("key"), text("request_digest"), json("body"), int("created_at")],
    },
    Table { name: "carried_turns", is_counted: false, columns: &[uuid("turn"), int("entries"), text("digest")] },
    Table {
        name: "events",
        is_counted: false,
        columns: &[int("number"), uuid("session"), text("status"), uuid("interrupt"), text("error"), int("stored_at")],
    },
    Table {
        name: AUDIT,
        is_counted: false,
        columns: &[
            int("seq"),
            int("at"),
            text("action"),
            uuid("session"),
            uuid("interrupt"),
            text("actor"),
            text("address"),
            json("details"),
            text("prev"),
            text("hash"),
        ],
    },
    Table {
        name: "keys",
        is_counted: true,
        columns: &[
            int("seq"),
            uuid("id"),
            text("name"),
            json("scopes"),
            json("key_groups"),
            bytes("digest"),
            int("created_at"),
            text("created_by"),
            int("revoked_at"),
        ],
    },
    Table { name: "sign_ins", is_counted: false, columns: &[bytes("token"), bytes("key"), int("ends_at")] },
    Table {
        name: "outbox",
        is_counted: true,
        columns: &[
            int("seq"),
            uuid("id"),
            int("reminder"),
            uuid("session"),
            uuid("interrupt"),
            text("event"),
            text("url"),
            text("origin"),
            text("token"),
            json("body"),
            text("status"),
            int("created_at"),
            int("due_at"),
            bool("leased"),
            int("attempts"),
            text("last_error"),
            int("settled_at"),
        ],
    },
    Table {
        name: "policy",
        is_counted: false,
        columns: &[int("place"), text("text"), text("digest"), int("pushed_at"), text("pushed_by")],
    },
    Table {
        name: "graph_checkpoints",
        is_counted: false,
        columns: &[
            text("thread"),
            text("namespace"),
            text("id"),
            text("parent"),
            text("run"),
            derived("channels", Kind::Names, "(SELECT json_group_array(key) FROM json_each(t.versions))"),
            Column {
                name: "versions",
                kind: Kind::Names,
                here: Here::Kept {
                    column: "versions",
                    read: "(SELECT json_group_array(value) FROM json_each(t.versions))",
                    write: "(SELECT json_group_object(c.value, v.value) \
                            FROM json_each(:channels) c JOIN json_each(:versions) v ON v.key = c.key)",
                },
            },
            text("body_type"),
            bytes("body"),
            text("metadata_type"),
            bytes("metadata"),
        ],
    },
    Table {
        name: "graph_values",
        is_counted: false,
        columns: &[text("thread"), text("namespace"), text("channel"), text("version"), text("type"), bytes("value")],
    },
    Table {
        name: "graph_writes",
        is_counted: false,
        columns: &[
            text("thread"),
            text("namespace"),
            text("checkpoint"),
            text("task"),
            int("place"),
            text("path"),
            text("channel"),
            text("type"),
            bytes("value"),
        ],
    },
];

/// The one that PostgreSQL keeps in two tables: what was told, and how it is bound.
pub(in crate::store) const AUDIT: &str = "audit";

impl Table {
    /// The names of its columns, as a statement lists them.
    pub(in crate::store) fn names(&self) -> String {
        self.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
    }
}
