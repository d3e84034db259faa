//! Which statements a job runs: what tests count.

use std::cell::RefCell;

use super::sql;

thread_local! {
    static RUN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A read of `table`.
pub(super) fn reads(table: &str, sql: &str) {
    // Whose a turn is: builds for tests ask before they write anything of it.
    if sql == sql!("turns/session") {
        return;
    }
    RUN.with_borrow_mut(|run| run.push(table.to_owned()));
}

/// A statement that writes, such as `UPDATE turns SET ...`.
pub(super) fn writes(sql: &str) {
    let words = sql.lines().filter(|line| !line.starts_with("--")).flat_map(str::split_whitespace);
    let words: Vec<_> = words.filter(|word| !["INTO", "FROM"].contains(word)).take(2).collect();
    RUN.with_borrow_mut(|run| run.push(words.join(" ")));
}

/// What this thread has run since it was asked last: a read by the name of its table.
pub(crate) fn take() -> Vec<String> {
    RUN.with_borrow_mut(std::mem::take)
}
