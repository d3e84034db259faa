//! Checkpoints of graphs.

use std::collections::BTreeMap;

use super::fixture::*;
use crate::store::graphs::{
    ChannelValue, Checkpoint, CheckpointKey, CheckpointQuery, GraphWrite, StoredCheckpoint, TypedBytes,
};

super::for_each_store!(
    a_checkpoint_comes_back_with_what_its_channels_held,
    what_is_put_again_takes_the_place_of_what_was_there,
    writes_come_in_the_order_of_paths_tasks_and_places,
    of_what_is_written_twice_the_first_stays_unless_its_place_is_below_zero,
    the_newest_come_first_and_pages_follow_each_other,
    checkpoints_are_found_by_what_is_asked_for,
    a_thread_is_deleted_with_all_that_is_its_own,
    what_no_checkpoint_names_goes_with_the_last_one_that_did,
    a_copy_is_whole_and_on_its_own,
    a_copy_takes_the_place_of_what_has_its_names_and_of_nothing_else,
    bytes_and_names_come_back_as_they_were,
    graphs_outlive_sessions_and_their_sweeping,
);

fn key(thread: &str, namespace: &str, id: &str) -> CheckpointKey {
    CheckpointKey { thread: thread.to_owned(), namespace: namespace.to_owned(), id: id.to_owned() }
}

fn bytes(text: &str) -> TypedBytes {
    TypedBytes { kind: "msgpack".to_owned(), bytes: text.as_bytes().to_vec() }
}

fn value(channel: &str, version: &str, text: &str) -> ChannelValue {
    ChannelValue { channel: channel.to_owned(), version: version.to_owned(), value: bytes(text) }
}

fn checkpoint(key: CheckpointKey, versions: &[(&str, &str)]) -> Checkpoint {
    let versions: BTreeMap<String, String> =
        versions.iter().map(|(channel, version)| ((*channel).to_owned(), (*version).to_owned())).collect();
    let (body, metadata) = (bytes(&format!("body of {}", key.id)), bytes("metadata"));
    Checkpoint { key, parent: None, run: None, versions, body, metadata }
}

fn write(task: &str, place: i64, path: &str, text: &str) -> GraphWrite {
    let (task, path) = (task.to_owned(), path.to_owned());
    GraphWrite { task, place, path, channel: format!("channel {place}"), value: bytes(text) }
}

impl Fixture {
    async fn put(&self, checkpoint: &Checkpoint, values: &[ChannelValue]) {
        self.upkeep().put_checkpoint(checkpoint.clone(), values.to_vec()).await.unwrap();
    }

    async fn put_writes(&self, key: &CheckpointKey, writes: Vec<GraphWrite>) {
        self.upkeep().put_writes(key.clone(), writes).await.unwrap();
    }

    async fn graphs(&self, query: CheckpointQuery) -> Vec<StoredCheckpoint> {
        self.upkeep().checkpoints(query).await.unwrap()
    }

    /// What is stored of a thread, the newest first.
    async fn thread(&self, thread: &str) -> Vec<StoredCheckpoint> {
        self.graphs(of(thread)).await
    }

    async fn ids(&self, query: CheckpointQuery) -> Vec<String> {
        let place = |key: CheckpointKey| format!("{}/{}/{}", key.thread, key.namespace, key.id);
        self.graphs(query).await.into_iter().map(|stored| place(stored.key)).collect()
    }
}

fn all() -> CheckpointQuery {
    CheckpointQuery { limit: 100, ..CheckpointQuery::default() }
}

fn of(thread: &str) -> CheckpointQuery {
    CheckpointQuery { thread: Some(thread.to_owned()), ..all() }
}

async fn a_checkpoint_comes_back_with_what_its_channels_held(it: Fixture) {
    assert_eq!(it.thread("t").await, []);
    it.put(&checkpoint(key("t", "", "1"), &[("a", "1"), ("b", "1")]), &[value("a", "1", "x"), value("b", "1", "y")])
        .await;
    // What did not change is not stored again; of what is not there, such as of an empty channel, nothing is told.
    let next = Checkpoint {
        parent: Some("1".to_owned()),
        ..checkpoint(key("t", "", "2"), &[("a", "2"), ("b", "1"), ("c", "7")])
    };
    it.put(&next, &[value("a", "2", "z")]).await;
    let found = it.thread("t").await;
    let told: Vec<_> = found.iter().map(|stored| stored.values.clone()).collect();
    assert_eq!(told[0], [value("a", "2", "z"), value("b", "1", "y")]);
    assert_eq!(told[1], [value("a", "1", "x"), value("b", "1", "y")]);
    assert_eq!((&found[0].key, found[0].parent.as_deref()), (&next.key, Some("1")));
    assert_eq!((&found[0].body, &found[0].metadata), (&next.body, &next.metadata));
    assert_eq!(found[1].parent, None);
    let bare = it.graphs(CheckpointQuery { is_bare: true, ..of("t") }).await;
    assert!(bare.iter().all(|stored| stored.values.is_empty()) && bare.len() == 2);
}

async fn what_is_put_again_takes_the_place_of_what_was_there(it: Fixture) {
    let first = checkpoint(key("t", "", "1"), &[("a", "1")]);
    it.put(&first, &[value("a", "1", "x")]).await;
    let again = Checkpoint { body: bytes("another"), run: Some("run".to_owned()), ..first };
    it.put(&again, &[value("a", "1", "y")]).await;
    let found = it.thread("t").await;
    assert_eq!((found.len(), &found[0].body), (1, &bytes("another")));
    assert_eq!(found[0].values, [value("a", "1", "y")]);
    assert_eq!(it.ids(CheckpointQuery { run: Some("run".to_owned()), ..all() }).await, ["t//1"]);
}

async fn writes_come_in_the_order_of_paths_tasks_and_places(it: Fixture) {
    let first = checkpoint(key("t", "", "1"), &[]);
    // They may come before their checkpoint does.
    it.put_writes(&first.key, vec![write("a", 1, "~2", "4"), write("a", 0, "~2", "3")]).await;
    it.put(&first, &[]).await;
    it.put_writes(&first.key, vec![write("z", 0, "~1", "2"), write("b", 0, "", "1")]).await;
    it.put_writes(&key("t", "", "2"), vec![write("a", 0, "", "of another")]).await;
    let found = it.thread("t").await;
    let told: Vec<_> = found[0].writes.iter().map(|write| write.value.clone()).collect();
    assert_eq!(told, ["1", "2", "3", "4"].map(bytes));
}

async fn of_what_is_written_twice_the_first_stays_unless_its_place_is_below_zero(it: Fixture) {
    let first = checkpoint(key("t", "", "1"), &[]);
    it.put(&first, &[]).await;
    it.put_writes(
        &first.key,
        vec![write("a", 0, "", "first"), write("a", 0, "", "same call"), write("a", -1, "", "error")],
    )
    .await;
    it.put_writes(&first.key, vec![write("a", 0, "", "later"), write("a", -1, "", "x"), write("a", -1, "", "last")])
        .await;
    let found = it.thread("t").await;
    assert_eq!(found[0].writes, [write("a", -1, "", "last"), write("a", 0, "", "first")]);
}

async fn the_newest_come_first_and_pages_follow_each_other(it: Fixture) {
    let keys = [("a", "", "1"), ("b", "", "2"), ("a", "sub", "2"), ("a", "", "2"), ("b", "", "10"), ("a", "", "9")];
    for (thread, namespace, id) in keys {
        it.put(&checkpoint(key(thread, namespace, id), &[]), &[]).await;
    }
    let whole = it.ids(all()).await;
    assert_eq!(whole, ["a//9", "b//2", "a/sub/2", "a//2", "b//10", "a//1"], "in the order of their bytes");
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = it.graphs(CheckpointQuery { limit: 2, after: after.clone(), ..all() }).await;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        paged.extend(page);
    }
    assert_eq!(paged, it.graphs(all()).await);
    assert_eq!(it.ids(CheckpointQuery { limit: 0, ..all() }).await, Vec::<String>::new());
}

async fn checkpoints_are_found_by_what_is_asked_for(it: Fixture) {
    for (thread, namespace, id, run) in
        [("a", "", "1", "one"), ("a", "", "2", "two"), ("a", "sub", "3", "one"), ("b", "", "2", "one")]
    {
        let run = Some(run.to_owned());
        it.put(&Checkpoint { run, ..checkpoint(key(thread, namespace, id), &[]) }, &[]).await;
    }
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(it.ids(of("a")).await, ["a/sub/3", "a//2", "a//1"]);
    assert_eq!(it.ids(CheckpointQuery { namespace: text(""), ..of("a") }).await, ["a//2", "a//1"]);
    assert_eq!(it.ids(CheckpointQuery { id: text("2"), ..all() }).await, ["b//2", "a//2"]);
    assert_eq!(it.ids(CheckpointQuery { before: text("2"), ..all() }).await, ["a//1"]);
    assert_eq!(it.ids(CheckpointQuery { run: text("one"), ..of("a") }).await, ["a/sub/3", "a//1"]);
    assert_eq!(it.ids(CheckpointQuery { namespace: text(""), limit: 1, ..of("a") }).await, ["a//2"]);
}

async fn a_thread_is_deleted_with_all_that_is_its_own(it: Fixture) {
    for thread in ["a", "ab", "b"] {
        let first = checkpoint(key(thread, "", "1"), &[("x", "1")]);
        it.put(&first, &[value("x", "1", thread)]).await;
        it.put(&checkpoint(key(thread, "sub", "1"), &[]), &[]).await;
        it.put_writes(&first.key, vec![write("task", 0, "", thread)]).await;
    }
    let (others, next) = (it.thread("ab").await, it.thread("b").await);
    it.upkeep().delete_thread("a".to_owned()).await.unwrap();
    it.upkeep().delete_thread("nobody".to_owned()).await.unwrap();
    assert_eq!(it.thread("a").await, []);
    assert_eq!((it.thread("ab").await, it.thread("b").await), (others, next));
    // Whatever takes their names has nothing of them.
    it.put(&checkpoint(key("a", "", "1"), &[("x", "1")]), &[]).await;
    let found = it.thread("a").await;
    assert_eq!((&found[0].values, &found[0].writes), (&vec![], &vec![]));
}

async fn what_no_checkpoint_names_goes_with_the_last_one_that_did(it: Fixture) {
    let versions: [&[(&str, &str)]; 3] =
        [&[("a", "1"), ("b", "1")], &[("a", "2"), ("b", "1")], &[("a", "2"), ("b", "2")]];
    let new: [&[ChannelValue]; 3] =
        [&[value("a", "1", "a1"), value("b", "1", "b1")], &[value("a", "2", "a2")], &[value("b", "2", "b2")]];
    for (id, (versions, new)) in ["1", "2", "3"].into_iter().zip(versions.into_iter().zip(new)) {
        let one = checkpoint(key("t", "", id), versions);
        it.put(&one, new).await;
        it.put_writes(&one.key, vec![write("task", 0, "", id)]).await;
    }
    it.put(&checkpoint(key("other", "", "1"), &[("a", "1")]), &[value("a", "1", "other")]).await;
    let (left, other) = (it.thread("t").await.swap_remove(0), it.thread("other").await);
    let gone = ["1", "2"].map(|id| (String::new(), id.to_owned())).to_vec();
    it.upkeep().delete_checkpoints("t".to_owned(), gone).await.unwrap();
    assert_eq!(it.thread("t").await, [left]);
    assert_eq!(it.thread("other").await, other);
    // What was named by those alone is gone.
    it.put(&checkpoint(key("t", "", "4"), &[("a", "1"), ("b", "1")]), &[]).await;
    assert_eq!(it.thread("t").await[0].values, []);
    it.put(&checkpoint(key("t", "", "1"), &[]), &[]).await;
    let first = it.graphs(CheckpointQuery { id: Some("1".to_owned()), ..of("t") }).await;
    assert_eq!(first[0].writes, []);
}

async fn a_copy_is_whole_and_on_its_own(it: Fixture) {
    let run = Some("run".to_owned());
    let first = Checkpoint { run, ..checkpoint(key("a", "sub", "1"), &[("x", "1")]) };
    it.put(&first, &[value("x", "1", "here")]).await;
    it.put_writes(&first.key, vec![write("task", -1, "p", "written")]).await;
    let before = it.thread("a").await;
    for _ in 0..2 {
        it.upkeep().copy_thread("a".to_owned(), "b".to_owned()).await.unwrap();
    }
    it.upkeep().copy_thread("nobody".to_owned(), "b".to_owned()).await.unwrap();
    let copied: Vec<StoredCheckpoint> = before
        .iter()
        .map(|stored| StoredCheckpoint {
            key: CheckpointKey { thread: "b".to_owned(), ..stored.key.clone() },
            ..stored.clone()
        })
        .collect();
    assert_eq!((it.thread("b").await, it.thread("a").await), (copied.clone(), before));
    assert_eq!(it.ids(CheckpointQuery { run: Some("run".to_owned()), ..all() }).await, ["b/sub/1", "a/sub/1"]);
    it.upkeep().delete_thread("a".to_owned()).await.unwrap();
    assert_eq!(it.thread("b").await, copied);
}

async fn a_copy_takes_the_place_of_what_has_its_names_and_of_nothing_else(it: Fixture) {
    for (thread, ids) in [("a", ["1", "2"]), ("b", ["2", "3"])] {
        for id in ids {
            let one = Checkpoint { body: bytes(thread), ..checkpoint(key(thread, "", id), &[("x", id)]) };
            it.put(&one, &[value("x", id, thread)]).await;
            it.put_writes(&one.key, vec![write(thread, 0, "", thread), write("both", 0, "", thread)]).await;
        }
    }
    it.upkeep().copy_thread("a".to_owned(), "b".to_owned()).await.unwrap();
    let told = |stored: &StoredCheckpoint| {
        let text = |value: &TypedBytes| String::from_utf8(value.bytes.clone()).unwrap();
        let values: String = stored.values.iter().map(|held| text(&held.value)).collect();
        let writes: String = stored.writes.iter().map(|write| text(&write.value)).collect();
        [stored.key.id.clone(), text(&stored.body), values, writes].join(" ")
    };
    let found: Vec<String> = it.thread("b").await.iter().map(told).collect();
    assert_eq!(found, ["3 b b bb", "2 a a aba", "1 a a aa"]);
}

async fn bytes_and_names_come_back_as_they_were(it: Fixture) {
    let odd = "\u{1a}0 ü \"'\\ {} |:~";
    let kind = odd.to_owned();
    let raw = TypedBytes { kind, bytes: (0..=255).collect() };
    let one = Checkpoint {
        parent: Some(odd.to_owned()),
        body: raw.clone(),
        metadata: TypedBytes { bytes: Vec::new(), ..raw.clone() },
        ..checkpoint(key(odd, odd, odd), &[(odd, odd)])
    };
    let held = ChannelValue { channel: odd.to_owned(), version: odd.to_owned(), value: raw.clone() };
    let written = GraphWrite { channel: odd.to_owned(), value: raw, ..write(odd, 0, odd, "") };
    it.put(&one, std::slice::from_ref(&held)).await;
    it.put_writes(&one.key, vec![written.clone()]).await;
    let Checkpoint { key, parent, body, metadata, .. } = one;
    let stored = StoredCheckpoint { key, parent, body, metadata, values: vec![held], writes: vec![written] };
    assert_eq!(it.thread(odd).await, [stored]);
}

async fn graphs_outlive_sessions_and_their_sweeping(it: Fixture) {
    let one = checkpoint(key(&session_id(1).to_string(), "", "1"), &[("a", "1")]);
    it.put(&one, &[value("a", "1", "x")]).await;
    it.open_turn().await;
    let before = it.thread(&one.key.thread).await;
    assert!(it.write(|tx| tx.delete_session(session_id(1))).await);
    assert_eq!(it.thread(&one.key.thread).await, before);
}
