mod fuzz;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn refused(text: &str) -> JsonRefusal {
    let refused = read(text.as_bytes()).unwrap_err();
    assert_eq!(check(text), Err(refused.clone()), "{text}");
    refused
}

fn at(loc: &[&str]) -> Vec<LocSegment> {
    loc.iter().map(|name| name.parse().map_or_else(|_| LocSegment::from(*name), LocSegment::Index)).collect()
}

#[test]
fn what_everybody_reads_alike_is_read_as_it_is() {
    for text in [
        r#"{"b": [1, -2.5, true, null], "a": {"b": "\u00e9\n\"1e400\""}}"#,
        "[18446744073709551615, -9223372036854775808]",
        r#"["12345678901234567890123", "\\"]"#,
        "\"\"",
        "{}",
        "[]",
    ] {
        assert_eq!(read(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        assert_eq!(check(text), Ok(()));
    }
}

#[test]
fn what_is_no_json_says_why() {
    for text in ["{", "{\"a\":NaN}", "\"\\ud800\"", "nul", "{} {}", "\u{feff}{}", "", "01", "[1,]"] {
        assert!(matches!(refused(text), JsonRefusal::Syntax(_)), "{text}");
    }
}

#[test]
fn a_member_that_is_there_twice_is_refused_wherever_it_is() {
    for (text, loc) in [
        (r#"{"approved": false, "approved": true}"#, vec!["approved"]),
        (r#"{"approved": true, "approved": true}"#, vec!["approved"]),
        (r#"{"a": [{}, {"b": 1, "c": 2, "b": 1}]}"#, vec!["a", "1", "b"]),
        (r#"{"approved": false, "\u0061pproved": true}"#, vec!["approved"]),
    ] {
        assert_eq!(refused(text), JsonRefusal::Doubled(at(&loc)), "{text}");
    }
}

#[test]
fn a_member_that_is_there_twice_is_found_among_any_number_of_others() {
    for count in 1..=3 * Names::FEW {
        let others: Vec<String> = (0..count).map(|number| format!(r#""name{number}": 0"#)).collect();
        let all = others.join(", ");
        assert_eq!(check(&format!("{{{all}}}")), Ok(()));
        for doubled in [0, count / 2, count - 1] {
            let text = format!(r#"{{{all}, "name{doubled}": 1}}"#);
            assert_eq!(refused(&text), JsonRefusal::Doubled(at(&[&format!("name{doubled}")])), "{text}");
        }
    }
}

#[test]
fn a_number_that_would_be_read_as_another_is_refused() {
    for number in [
        "18446744073709551616",
        "-9223372036854775809",
        "340282366920938463463374607431768211457",
        "10000000000000000000000",
        "0.1234567890123456789012345",
        "9007199254740993.0",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "1.7976931348623159e309",
    ] {
        let JsonRefusal::OutOfRange(_, told) = refused(number) else { panic!("{number}") };
        assert_eq!(told, number);
    }
    let text = format!(r#"{{"a": [1, "2", {{"b": {}}}], "c": 0.1}}"#, "0.1234567890123456789012345");
    let JsonRefusal::OutOfRange(loc, _) = refused(&text) else { panic!("{text}") };
    assert_eq!(loc, at(&["a", "2", "b"]));
}

#[test]
fn a_number_may_be_written_in_any_way() {
    for (text, value) in [
        ("0.1", json!(0.1)),
        ("0.10", json!(0.1)),
        // Both are as near to the double that they are read as, 0.05 away, and there are writers of either.
        ("1363878966614686.2", json!(5_455_515_866_458_745_f64 / 4.0)),
        ("1363878966614686.3", json!(5_455_515_866_458_745_f64 / 4.0)),
        ("-1363878966614686.2", json!(-5_455_515_866_458_745_f64 / 4.0)),
        ("1.0", json!(1.0)),
        ("1e2", json!(100.0)),
        ("1E+2", json!(100.0)),
        ("100e-2", json!(1.0)),
        ("0.10000000000000000000000", json!(0.1)),
        ("1.00000000000000000000000e22", json!(1e22)),
        ("-0", json!(-0.0)),
        ("-0.0e0000000000000000", json!(-0.0)),
        ("0e99999999999999999999", json!(0.0)),
        ("5e-324", json!(5e-324)),
        ("1.7976931348623157e308", json!(f64::MAX)),
        ("123456789012345678", json!(123_456_789_012_345_678_u64)),
    ] {
        assert_eq!(read(text.as_bytes()), Ok(value), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(nested(MAX_READ_DEPTH).as_bytes()).is_ok());
    for depth in [MAX_READ_DEPTH + 1, 127, 100_000] {
        assert!(matches!(refused(&nested(depth)), JsonRefusal::TooDeep(..)), "{depth}");
    }
}

#[test]
fn each_is_an_error_of_its_own_that_names_the_place() {
    let body = [LocSegment::from("body")];
    let code = |text: &str| refused(text).within(&body).code();
    assert_eq!(code(r#"{"a": 1, "a": 1}"#), "duplicate_member");
    assert_eq!(code("1e400"), "number_out_of_range");
    assert_eq!(code("{"), "invalid_request");
    let told = refused(r#"{"a": {"b": 1, "b": 1}}"#).within(&body).to_string();
    assert_eq!(told, "Invalid JSON: body.a.b: is there more than once");
}

proptest! {
    #[test]
    fn every_double_and_integer_that_is_written_is_read(double in any::<f64>(), whole in any::<i64>(), large in any::<u64>()) {
        prop_assume!(double.is_finite());
        let value = json!([double, whole, large]);
        prop_assert_eq!(read(value.to_string().as_bytes()).unwrap(), value);
        prop_assert_eq!(read(format!("{double:e}").as_bytes()).map(|read| read.as_f64()), Ok(Some(double)));
    }

    #[test]
    fn so_is_a_double_in_the_middle_between_its_two_shortest_forms(whole in 1_u64 << 49..1 << 53, eighths in 0_u8..8) {
        let double = whole as f64 + f64::from(eighths) / 8.0;
        prop_assert_eq!(read(json!(double).to_string().as_bytes()), Ok(json!(double)));
        prop_assert_eq!(read(format!("{double:e}").as_bytes()), Ok(json!(double)));
    }

    #[test]
    fn any_text_is_read_as_serde_json_reads_it_or_not_at_all(text in r#"[\[\]{}",:0-9eE.\\+ a-]{0,24}"#) {
        match (read(text.as_bytes()), serde_json::from_str::<Value>(&text)) {
            (Ok(ours), theirs) => prop_assert_eq!(Some(ours), theirs.ok()),
            (Err(JsonRefusal::Syntax(_)), theirs) => prop_assert!(theirs.is_err()),
            (Err(_), _) => {}
        }
    }
}
