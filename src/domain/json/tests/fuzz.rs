//! Any text at all.

use super::*;
use crate::domain::fuzzing::{config, texts};

fn valid() -> Vec<String> {
    let texts = [
        r#"{"message": {"role": "user", "content": "h\u00e9llo"}, "timeout": 1.5}"#,
        r#"{"answers": {"01890a5d-ac96-774b-bcce-b302099a8057": {"approved": true, "args": {"n": [1, 2.5, -3e2]}}}}"#,
        r#"[{"a": {"a": {"a": null}}}, "a", 18446744073709551615, -0.0]"#,
    ];
    texts.map(str::to_owned).to_vec()
}

proptest! {
    #![proptest_config(config(16))]

    /// Both readers agree, nothing is read that another reader would read otherwise, and what is read is written alike.
    #[test]
    fn fuzz_json_that_is_read_says_one_thing(text in texts(valid())) {
        let whole = read(&text);
        if let Ok(text) = std::str::from_utf8(&text) {
            prop_assert_eq!(check(text), whole.clone().map(drop));
        }
        let plain = serde_json::from_slice::<Value>(&text);
        match whole {
            Ok(value) => {
                prop_assert!(plain.is_ok_and(|plain| plain == value));
                let written = value.to_string();
                prop_assert_eq!(read(written.as_bytes()), Ok(value));
            }
            Err(JsonRefusal::Syntax(_)) => prop_assert!(plain.is_err()),
            Err(refused) => prop_assert!(refused.to_string().len() < 1000, "{}", refused),
        }
    }
}
