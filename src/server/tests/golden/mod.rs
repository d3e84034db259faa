//! What clients and dashboards rely on, word by word, beside what the server says: each file is what came last, and
//! `HITL_WRITE_GOLDEN=1` writes it anew.

use std::path::Path;

mod metrics;
mod refusals;

/// The text of a golden file.
fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// Checks that a golden file is `text`, line by line so that the first difference is told and not the whole.
fn compare(name: &str, text: &str) {
    if std::env::var_os("HITL_WRITE_GOLDEN").is_some() {
        std::fs::write(path(name), text).unwrap();
    }
    let golden = read(name);
    let mut lines = golden.lines().zip(text.lines()).zip(1..);
    let different = lines.find(|((was, is), _)| was != is);
    assert_eq!(different, None, "{name}: a line was the first and is the second; HITL_WRITE_GOLDEN=1 writes it anew");
    assert_eq!(golden.lines().count(), text.lines().count(), "{name} has more lines, or fewer");
}

fn path(name: &str) -> impl AsRef<Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/tests/golden").join(name)
}
