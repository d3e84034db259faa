//! The layers of the core: each module may import only what is below it (see the crate's documentation).

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What each layer may import; nothing else, not even its neighbour.
const MAY_IMPORT: [(&str, &[&str]); 10] = [
    ("py", &["run", "serve", "server", "supervisor", "adapters", "engine", "store", "domain", "faults"]),
    ("serve", &["server", "supervisor", "adapters", "engine", "store", "domain", "faults"]),
    ("run", &["supervisor", "engine", "store", "domain", "faults"]),
    ("server", &["engine", "store", "domain", "faults"]),
    ("supervisor", &["engine", "store", "domain", "faults"]),
    // What stands behind the ports of the engine.
    ("adapters", &["engine", "domain"]),
    ("engine", &["store", "domain", "faults"]),
    ("store", &["domain", "faults"]),
    ("domain", &[]),
    // Empty but in test builds.
    ("faults", &[]),
];

/// The domain has no I/O, no clock and no chance: time and ids are arguments. It begins no thread, and how it is shown to
/// clients is not its concern.
const NOT_IN_DOMAIN: [&str; 17] = [
    "utoipa",
    "thread::spawn",
    "thread::Builder",
    "thread::scope",
    "tokio",
    "pyo3",
    "rusqlite",
    "axum",
    "hyper",
    "reqwest",
    "SystemTime",
    "Instant",
    "std::fs",
    "std::net::Tcp",
    "std::env",
    "now_v7",
    "new_v4",
];

/// What the engine asks of the world outside, it asks through its ports.
const NOT_IN_ENGINE: [&str; 7] =
    ["reqwest", "rustls", "std::fs", "tokio::fs", "tokio::net", "std::net::Tcp", "SystemTime"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files of a layer: `<layer>.rs`, `<layer>/` or both.
fn files_of(layer: &str) -> Vec<PathBuf> {
    let (file, directory) = (source().join(layer).with_extension("rs"), source().join(layer));
    let mut files = if directory.is_dir() { rust_files(&directory) } else { Vec::new() };
    files.extend(file.is_file().then_some(file));
    assert!(!files.is_empty(), "the layer {layer} has no files");
    files
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Whether a file holds tests only; those may use a clock.
fn is_test(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "tests.rs" || name == "fuzz.rs" || name == "seeds.rs")
        || file
            .strip_prefix(source())
            .unwrap_or(file)
            .components()
            .any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "contract" | "simulation" | "simulated")))
}

/// The code of a file: comments and a `mod tests { ... }` at its end left out.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The layers that `code` names as `crate::<layer>`, in `use` lines and elsewhere, `use crate::{a, b}` included.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            None => found.push(identifier(after)),
            Some(group) => found.extend(top_level(group).into_iter().map(identifier)),
        }
    }
    found
}

fn identifier(text: &str) -> String {
    text.trim().chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}

/// The parts of a `{...}` group up to its closing brace, nested groups left inside their part.
fn top_level(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (index, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[start..index]);
                return parts;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts
}

#[test]
fn every_import_points_downwards() {
    let layers: Vec<&str> = MAY_IMPORT.iter().map(|(layer, _)| *layer).collect();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (layer, allowed) in MAY_IMPORT {
        for file in files_of(layer) {
            for import in imports(&code(&file)) {
                seen += 1;
                let is_layer = layers.contains(&import.as_str());
                // Tests put real parts behind the ports.
                let is_real_part = import == "adapters" && is_test(&file);
                if is_layer && import != layer && !allowed.contains(&import.as_str()) && !is_real_part {
                    wrong.push(format!("{}: {layer} must not import {import}", file.display()));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} imports were found: this test no longer reads the code");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Those of what comes after these lines.
fn attributes<'a>(before: &[&'a str]) -> impl Iterator<Item = &'a str> {
    before.iter().rev().copied().take_while(|line| line.starts_with("#["))
}

#[test]
fn every_module_of_the_crate_is_a_layer() {
    let lib = fs::read_to_string(source().join("lib.rs")).unwrap();
    let lines: Vec<&str> = lib.lines().collect();
    let modules: Vec<&str> = (0..lines.len())
        // What is in tests/ may import everything.
        .filter(|at| !attributes(&lines[..*at]).any(|attribute| attribute == "#[cfg(test)]"))
        .filter_map(|at| lines[at].trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    assert!(!modules.is_empty());
    for module in modules {
        assert!(MAY_IMPORT.iter().any(|(layer, _)| *layer == module), "{module} has no place in the layers");
    }
}

#[test]
fn the_domain_is_pure() {
    let mut wrong = Vec::new();
    for file in files_of("domain").into_iter().filter(|file| !is_test(file)) {
        let code = code(&file);
        for name in NOT_IN_DOMAIN.iter().filter(|name| code.contains(**name)) {
            wrong.push(format!("{}: the domain must not know {name}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each enum of effects in the domain, and the file with the one function that performs them.
const PERFORMED: [(&str, &str, &str); 3] = [
    ("domain/session.rs", "Effect", "engine/telling/after_commit.rs"),
    ("domain/turn/mod.rs", "TurnEffect", "store/turns.rs"),
    ("domain/turn/stage.rs", "StageEffect", "engine/placement/live_turn.rs"),
];

#[test]
fn every_effect_of_the_domain_is_performed_by_somebody() {
    let mut wrong = Vec::new();
    for (machine, kind, performer) in PERFORMED {
        let (machine, performer) = (code(&source().join(machine)), code(&source().join(performer)));
        let effects = machine.split_once(&format!("pub enum {kind} {{")).unwrap().1;
        let effects: Vec<String> = top_level(effects).into_iter().map(identifier).filter(|it| !it.is_empty()).collect();
        assert!(effects.len() > 1, "{effects:?}");
        for effect in effects {
            let name = format!("{kind}::{effect}");
            let mut arms = performer.split(&name).skip(1).map(|arm| arm.split_once("=>"));
            let does_something = |(_, done): (&str, &str)| !done.trim_start().starts_with("{}");
            if !arms.any(|arm| arm.is_some_and(does_something)) {
                wrong.push(effect);
            }
        }
    }
    assert!(wrong.is_empty(), "nobody performs {wrong:?}");
}

/// What a static of the domain may be: compiled once from what stands in the code, and never changed.
fn is_compiled_once(kind: &str) -> bool {
    kind.strip_prefix("LazyLock<").is_some_and(|inner| {
        !["Mutex", "RwLock", "Cell", "Atomic", "OnceLock"].iter().any(|changing| inner.contains(changing))
    })
}

/// The statics of `code` that can change, each with its type.
fn changing_statics(code: &str) -> Vec<&str> {
    let declared = code.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub").map_or(line, |rest| rest.trim_start_matches(|c| c != ' ').trim_start());
        line.strip_prefix("static ")
    });
    let is_changing = |declaration: &&str| {
        let (_, kind) = declaration.split_once(": ").unwrap_or_default();
        let marks = ["Mutex", "RwLock", "Cell", "Atomic", "OnceLock", "LazyLock"];
        marks.iter().any(|mark| kind.split(" = ").next().unwrap_or_default().contains(mark)) && !is_compiled_once(kind)
    };
    declared.filter(is_changing).collect()
}

/// `code` without the thread's memory that only builds for tests have.
fn without_failpoints(code: &str) -> String {
    match code.split_once("#[cfg(feature = \"failpoints\")]\nstd::thread_local! {") {
        None => code.to_owned(),
        Some((before, after)) => before.to_owned() + after.split_once("\n}\n").map_or("", |(_, after)| after),
    }
}

#[test]
fn the_domain_keeps_nothing_for_the_whole_process() {
    let mut seen = 0;
    for file in files_of("domain").into_iter().filter(|file| !is_test(file)) {
        let code = code(&file);
        let shipped = without_failpoints(&code);
        assert!(!shipped.contains("thread_local!"), "{}: a thread keeps nothing either", file.display());
        assert_eq!(changing_statics(&shipped), [""; 0], "{}: who needs kept things owns them", file.display());
        seen += shipped.matches("\nstatic ").count();
    }
    assert!(seen > 0, "this test no longer reads the code");
}

#[test]
fn statics_that_change_are_found() {
    let code = "static A: LazyLock<Regex> = LazyLock::new(a);\nstatic B: Mutex<u8> = b();\n    pub(super) static C: \
        LazyLock<RwLock<u8>> = c();\npub static D: OnceLock<u8> = d();\nstatic E: [&str; 2] = [\"Mutex\", \"Cell\"];";
    let found: Vec<&str> = changing_statics(code).into_iter().map(|declaration| &declaration[..1]).collect();
    assert_eq!(found, ["B", "C", "D"]);
}

#[test]
fn the_engine_calls_nobody_and_reads_no_file() {
    for file in files_of("engine").into_iter().filter(|file| !is_test(file)) {
        let code = code(&file);
        let named: Vec<&&str> = NOT_IN_ENGINE.iter().filter(|name| code.contains(**name)).collect();
        assert!(named.is_empty(), "{}: {named:?} belongs behind a port, into adapters", file.display());
    }
}

/// The options of a command line that `code` names.
fn options(code: &str) -> Vec<&str> {
    let named = |(place, _): (usize, &str)| {
        let is_free = code[..place].ends_with([' ', '"', '`']);
        let is_named = code[place + 2..].starts_with(|letter: char| letter.is_ascii_lowercase());
        (is_free && is_named).then(|| code[place..].split([' ', '"', '`']).next().unwrap_or_default())
    };
    code.match_indices("--").filter_map(named).collect()
}

#[test]
fn texts_of_the_domain_name_no_option_of_a_command_line() {
    for file in files_of("domain").into_iter().filter(|file| !is_test(file)) {
        assert_eq!(options(&code(&file)), [""; 0], "{}: whoever shows the error knows its options", file.display());
    }
    assert_eq!(options("\"start it with --allow-more or `--yes`\" - --1 a--b"), ["--allow-more", "--yes"]);
}

/// Which modules of `layer`, a file or a folder each, import which: by `super::` in a file beside them, by
/// `crate::<layer>::` anywhere. Names that the layer's `mod.rs` re-exports count as their module's.
fn rooms(layer: &str) -> BTreeMap<String, BTreeSet<String>> {
    let root = source().join(layer);
    let front = code(&root.join("mod.rs"));
    let mut home: BTreeMap<String, String> = BTreeMap::new();
    for line in front.split("pub use ").skip(1) {
        let (module, names) = line.split_once("::").unwrap();
        for name in names.split(';').next().unwrap().split([',', '{', '}']) {
            home.insert(name.trim().to_owned(), module.to_owned());
        }
    }
    let room_of = |file: &Path| {
        let first = file.strip_prefix(&root).unwrap().components().next().unwrap();
        first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
    };
    let files: Vec<PathBuf> = files_of(layer).into_iter().filter(|file| !is_test(file)).collect();
    let known: BTreeSet<String> = files.iter().map(|file| room_of(file)).filter(|room| room != "mod").collect();
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| room_of(file) != "mod") {
        let depth = file.strip_prefix(&root).unwrap().components().count();
        let is_beside = depth == 1 || (depth == 2 && file.ends_with("mod.rs"));
        let whole = format!("crate::{}::", layer.replace('/', "::"));
        let paths = if is_beside { vec!["super::", whole.as_str()] } else { vec![whole.as_str()] };
        let code = code(file);
        for after in paths.into_iter().flat_map(|path| code.split(path).skip(1)) {
            let named = match after.strip_prefix('{') {
                None => vec![identifier(after)],
                Some(group) => top_level(group).into_iter().map(identifier).collect(),
            };
            let rooms = named.into_iter().map(|name| home.get(&name).cloned().unwrap_or(name));
            let others = rooms.filter(|room| known.contains(room) && *room != room_of(file));
            arrows.entry(room_of(file)).or_default().extend(others);
        }
    }
    arrows
}

/// What is left when whatever imports nothing that is left goes, again and again: circles, and what leads to them.
fn circles(mut arrows: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let left: BTreeSet<String> =
            arrows.iter().filter(|(_, to)| !to.is_empty()).map(|(room, _)| room.clone()).collect();
        let before: usize = arrows.values().map(BTreeSet::len).sum();
        arrows.retain(|room, _| left.contains(room));
        arrows.values_mut().for_each(|to| to.retain(|room| left.contains(room)));
        if arrows.values().map(BTreeSet::len).sum::<usize>() == before {
            return arrows;
        }
    }
}

#[test]
fn the_modules_of_a_layer_make_no_circle() {
    let layers = [("domain", 15), ("store", 15), ("supervisor", 15), ("server", 15)];
    let rooms_of_engine =
        [("engine/access", 0), ("engine/telling", 5), ("engine/placement", 2), ("engine/journal", 15)];
    for (layer, least) in layers.into_iter().chain(rooms_of_engine) {
        let arrows = rooms(layer);
        let read = arrows.values().map(BTreeSet::len).sum::<usize>();
        assert!(read > least, "this test no longer reads the code of {layer}: {arrows:?}");
        let circles = circles(arrows);
        assert!(circles.is_empty(), "{layer}: {circles:#?}");
    }
}

/// The rooms of the engine and what each may import of the others. What is not in a room, such as the clock, the settings
/// and the alarm, is everybody's; `Engine` itself, which the journal's work is done with, stands on top.
const ENGINE_ROOMS: [(&str, &[&str]); 5] = [
    ("ports", &[]),
    ("access", &[]),
    ("telling", &["ports"]),
    ("placement", &["ports", "access", "telling"]),
    ("journal", &["ports", "access", "telling", "placement"]),
];

#[test]
fn the_rooms_of_the_engine_import_only_what_is_below_them() {
    let arrows = rooms("engine");
    let known: BTreeSet<&str> = ENGINE_ROOMS.iter().map(|(room, _)| *room).collect();
    for (room, allowed) in ENGINE_ROOMS {
        assert!(source().join("engine").join(room).join("mod.rs").is_file(), "{room} is no room any more");
        let imported = arrows.get(room).into_iter().flatten();
        let others: Vec<&String> = imported.filter(|other| known.contains(other.as_str())).collect();
        let wrong: Vec<&&String> = others.iter().filter(|other| !allowed.contains(&other.as_str())).collect();
        assert!(wrong.is_empty(), "{room} must not import {wrong:?}");
        let unused: Vec<&&str> = allowed.iter().filter(|room| !others.iter().any(|other| other == *room)).collect();
        assert!(unused.is_empty(), "{room} does not import {unused:?} any more: take it out");
    }
    let folders: BTreeSet<&str> = arrows.keys().map(String::as_str).filter(|room| is_folder(room)).collect();
    assert!(folders.is_subset(&known), "a folder of the engine is a room: {folders:?}");
    let circles = circles(arrows);
    assert!(circles.is_empty(), "{circles:#?}");
}

fn is_folder(room: &str) -> bool {
    source().join("engine").join(room).is_dir()
}

#[test]
fn circles_are_found() {
    let arrows = |of: &[(&str, &str)]| {
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in of {
            arrows.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        arrows
    };
    assert!(circles(arrows(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    assert_eq!(circles(arrows(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")])).len(), 3);
}

#[test]
fn each_language_of_the_world_outside_is_spoken_in_one_place() {
    for (library, home) in
        [("pyo3::", "py"), ("rusqlite::", "store"), ("axum::", "server"), ("utoipa", "server"), ("reqwest", "adapters")]
    {
        for (layer, _) in MAY_IMPORT.iter().filter(|(layer, _)| *layer != home) {
            // Tests of a server call it.
            let is_caller = |file: &PathBuf| library == "reqwest" && is_test(file);
            for file in files_of(layer).into_iter().filter(|file| !is_caller(file)) {
                assert!(!code(&file).contains(library), "{}: {library} belongs into {home}", file.display());
            }
        }
    }
}

#[test]
fn imports_are_found_in_every_form() {
    let code = "use crate::engine::Engine;\nuse crate::{domain::Error, store::{self, query}};\nlet x = crate::py::f();";
    assert_eq!(imports(code), ["engine", "domain", "store", "py"]);
}

/// A room below the journal owns its state and does its own work with it: what it needs of the others it is handed.
#[test]
fn no_room_below_the_journal_knows_the_engine() {
    let mut seen = 0;
    for room in ["ports", "access", "telling", "placement"] {
        for file in rust_files(&source().join("engine").join(room)) {
            seen += 1;
            let code = code(&file);
            let words = code.split(|character: char| !character.is_alphanumeric() && character != '_');
            assert_eq!(words.filter(|word| *word == "Engine").count(), 0, "{} names the engine", file.display());
        }
    }
    assert!(seen > 20, "this test no longer reads the rooms");
}
