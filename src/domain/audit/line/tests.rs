use std::path::Path;

use serde_json::{Map, json};

use super::*;
use crate::domain::audit::{Flaw, Head, Verifier};

/// What a release wrote that spelled rows in another way, out of a server or out of a store.
fn kept(of: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/python/cli/audits/release_0_1-{of}.jsonl"));
    std::fs::read(path)
        .unwrap()
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .filter(|line| !line.is_empty())
        .collect()
}

/// The same rows as they are exported now.
fn exported() -> Vec<Vec<u8>> {
    let mut verifier = Verifier::new(None);
    kept("stored").iter().map(|line| verifier.take_text(line).unwrap()).collect()
}

/// What comes of a file whose row at `index` is `line`, where a head was written down.
fn verify(lines: &[Vec<u8>], index: usize, line: &[u8]) -> Result<Head, Flaw> {
    let head = read_loosely(lines.last().unwrap()).unwrap().head();
    let mut verifier = Verifier::new(Some(head));
    for (place, kept) in lines.iter().enumerate() {
        verifier.take_line(if place == index { line } else { kept })?;
    }
    verifier.finish()
}

/// Who has read what comes before the row at `index`, and knows its head.
fn before(lines: &[Vec<u8>], index: usize) -> Verifier {
    let mut verifier = Verifier::new(Some(read_loosely(&lines[index]).unwrap().head()));
    lines[..index].iter().for_each(|line| verifier.take_line(line).unwrap());
    verifier
}

fn is_refused(before: &Verifier, line: &[u8]) -> bool {
    let mut verifier = before.clone();
    verifier.take_line(line).is_err() || verifier.finish().is_err()
}

fn why(lines: &[Vec<u8>], index: usize, line: impl AsRef<[u8]>) -> String {
    verify(lines, index, line.as_ref()).unwrap_err().to_string()
}

/// `value` with its members in the order in which they stand.
fn compact(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The line as JSON, each object of which can be changed.
fn objects(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            change(members);
            members.values_mut().for_each(|member| objects(member, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| objects(item, change)),
        _ => {}
    }
}

/// `value` with object number `wanted` changed; `None` where there are fewer.
fn changed(value: &Value, wanted: usize, change: impl Fn(&mut Map<String, Value>)) -> Option<Value> {
    let (mut value, mut count) = (value.clone(), 0);
    objects(&mut value, &mut |members| {
        if count == wanted {
            change(members);
        }
        count += 1;
    });
    (count > wanted).then_some(value)
}

#[test]
fn what_is_exported_and_what_earlier_releases_wrote_is_whole() {
    let exported = exported();
    assert!(exported.len() > 20);
    for lines in [&exported, &kept("stored"), &kept("served")] {
        verify(lines, 0, &lines[0]).unwrap();
    }
    assert_ne!(kept("stored"), kept("served"), "some numbers are spelled in another way");
}

#[test]
fn a_line_is_what_its_hash_is_of_and_the_chain() {
    for line in exported() {
        let row = read(&line).unwrap();
        let text = String::from_utf8(line).unwrap();
        let hashed = text.replacen(&format!("\"hash\":\"{}\",", row.hash), "", 1).replacen(
            &format!("\"prev\":\"{}\",", row.prev),
            "",
            1,
        );
        use sha2::{Digest, Sha256};
        assert_eq!(row.hash, crate::domain::digest::hex(&Sha256::digest(format!("{}{hashed}", row.prev))));
    }
}

#[test]
fn any_byte_that_is_another_one_is_told() {
    for lines in [exported(), kept("served")] {
        for (index, line) in lines.iter().enumerate() {
            let before = before(&lines, index);
            // Rows are alike, so that every place is met at one of them.
            for place in (index % 4..line.len()).step_by(4) {
                for other in [b' ', line[place] ^ 0x20, line[place] ^ 1] {
                    let mut forged = line.clone();
                    forged[place] = other;
                    let is_same = forged == *line;
                    assert!(is_same || is_refused(&before, &forged), "{}", String::from_utf8_lossy(&forged));
                }
            }
        }
    }
}

#[test]
fn any_byte_that_is_put_in_or_left_out_is_told() {
    let lines = exported();
    for (index, line) in lines.iter().enumerate() {
        let before = before(&lines, index);
        for place in (index % 4..line.len()).step_by(4) {
            let [mut longer, mut shorter] = [line.clone(), line.clone()];
            longer.insert(place, b' ');
            shorter.remove(place);
            assert!(is_refused(&before, &longer) && is_refused(&before, &shorter), "row {index}, byte {place}");
        }
    }
}

#[test]
fn a_member_that_is_put_in_anywhere_is_told() {
    let lines = exported();
    for (index, line) in lines.iter().enumerate() {
        let before = before(&lines, index);
        let value: Value = serde_json::from_slice(line).unwrap();
        for number in 0.. {
            let put_in = |members: &mut Map<String, Value>| {
                members.insert("zz_resolved_by".to_owned(), json!("eve"));
            };
            let Some(forged) = changed(&value, number, put_in) else { break };
            assert!(is_refused(&before, &compact(&forged)), "{forged}");
        }
    }
}

#[test]
fn a_member_that_is_doubled_anywhere_is_told() {
    let lines = exported();
    for (index, line) in lines.iter().enumerate() {
        let before = before(&lines, index);
        let text = std::str::from_utf8(line).unwrap();
        let names = text.match_indices("\":").map(|(end, _)| text[..end].rfind('"').unwrap()).collect::<Vec<_>>();
        for start in names {
            let end = start + text[start + 1..].find('"').unwrap() + 2;
            let forged = format!("{}{}:\"eve\",{}", &text[..start], &text[start..end], &text[start..]);
            assert!(is_refused(&before, forged.as_bytes()), "{forged}");
            assert!(read(forged.as_bytes()).unwrap_err().contains("more than once"), "{forged}");
        }
    }
}

#[test]
fn members_in_another_order_are_told() {
    let lines = exported();
    for (index, line) in lines.iter().enumerate() {
        let before = before(&lines, index);
        let value: Value = serde_json::from_slice(line).unwrap();
        for number in 0.. {
            let turn = |members: &mut Map<String, Value>| {
                *members = std::mem::take(members).into_iter().rev().collect();
            };
            let Some(forged) = changed(&value, number, turn) else { break };
            let is_same = compact(&forged) == *line;
            assert!(is_same || is_refused(&before, &compact(&forged)), "{forged}");
        }
    }
}

#[test]
fn it_is_said_which_row_and_which_member() {
    let lines = exported();
    let text = |index: usize| String::from_utf8(lines[index].clone()).unwrap();
    let edited =
        lines.iter().position(|line| read(line).unwrap().details.get("decision") == Some(&json!("edit"))).unwrap();
    let row = edited + 1;
    for (index, from, to, wanted) in [
        (0, "{", r#"{"resolved_by":"eve","#, "row 1 has a member that no row has: `resolved_by`".to_owned()),
        (
            edited,
            r#""resolved_by":"#,
            r#""resolved_by":"eve","resolved_by":"#,
            format!("row {row} says two things: details.resolved_by: is there more than once"),
        ),
        (
            edited,
            r#""final_args":{"#,
            r#""final_args":{"cents":1,"#,
            format!("row {row} says two things: details.final_args.cents: is there more than once"),
        ),
        (edited, r#""actor":"bob","#, "", format!("row {row} is no row of an audit: it has no `actor`")),
        (edited, r#"Z","details""#, r#"0Z","details""#, "look at `at`".to_owned()),
        (edited, r#""actor":"bob""#, r#""actor":"b\u006fb""#, "look at `actor`".to_owned()),
        (edited, r#""cents":50"#, r#""cents": 50"#, "look at `details`".to_owned()),
        (edited, r#""cents":50"#, r#""cents":5"#, format!("row {row} was changed: it does not fit its hash")),
    ] {
        let said = why(&lines, index, text(index).replacen(from, to, 1));
        assert!(said.contains(&wanted), "{said}");
    }
    let id = read(&lines[edited]).unwrap().session_id.unwrap().to_string();
    let said = why(&lines, edited, text(edited).replace(&id, &id.to_uppercase()));
    assert!(said.starts_with(&format!("row {row} is not spelled as")) && said.contains("`session_id`"), "{said}");
    let said = why(&lines, edited, format!("{} ", text(edited)));
    assert!(said.contains("look at its end"), "{said}");
    assert!(why(&lines, 0, "").contains("row 1 is no row of an audit"));
}

#[test]
fn numbers_are_spelled_as_python_does() {
    for (number, spelled) in [
        (1e-7, "1e-07"),
        (1.5e-10, "1.5e-10"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.25e100, "1.25e+100"),
        (-0.0, "-0.0"),
        (-2.5, "-2.5"),
        (5e-324, "5e-324"),
        (123_456_789.125, "123456789.125"),
    ] {
        assert_eq!(String::from_utf8(with_numbers_of_python(&json!(number))).unwrap(), spelled);
    }
}
