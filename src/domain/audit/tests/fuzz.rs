//! Any change of an export.

use super::*;
use crate::domain::fuzzing::{config, texts};

fn export() -> Vec<AuditRow> {
    let decision = Deed::of(&approval());
    let mut rows = three();
    let (head, at) = (rows[2].head(), at(9));
    rows.push(AuditRow::after(&head, decision, at));
    rows
}

fn text(rows: &[AuditRow]) -> String {
    rows.iter().map(|row| json!(row).to_string() + "\n").collect()
}

fn read(text: &[u8]) -> Option<Vec<AuditRow>> {
    let text = std::str::from_utf8(text).ok()?;
    text.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

proptest! {
    #![proptest_config(config(8))]

    /// With its head, an export that is whole holds the rows that it held; without, at least their beginning.
    #[test]
    fn fuzz_a_changed_export_is_told(changed in texts(vec![text(&export())])) {
        let Some(rows) = read(&changed) else { return Ok(()) };
        let whole = export();
        let head = whole[3].head();
        match verify(&rows, Some(head.clone())) {
            Ok(end) => {
                prop_assert_eq!(&rows, &whole);
                prop_assert_eq!(end, head);
            }
            Err(flaw) => {
                prop_assert_ne!(&rows, &whole);
                prop_assert!(flaw.to_string().len() < 1000);
            }
        }
        if verify(&rows, None).is_ok() {
            prop_assert!(whole.starts_with(&rows), "rows were made up without a hash to fit them");
        }
    }
}
