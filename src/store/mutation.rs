//! Faults on purpose, for the test that shows that the suite would notice them.
//!
//! Built only with the cargo feature `mutations`, which is off by default, and then only in effect in a process whose
//! environment says `HITL_MUTATION=<name>`. Without the feature nothing of this is in the program.

/// What can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// `no_sync`: commits are acknowledged before they are on the disk.
    NoSync,
    /// `no_epoch`: an owner that was replaced still writes.
    NoEpoch,
}

impl Mutation {
    /// Whether it is in effect.
    #[cfg(feature = "mutations")]
    pub fn is_on(self) -> bool {
        use std::sync::LazyLock;

        static WANTED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("HITL_MUTATION").ok());
        let name = match self {
            Self::NoSync => "no_sync",
            Self::NoEpoch => "no_epoch",
        };
        WANTED.as_deref() == Some(name)
    }

    /// Whether it is in effect: never.
    #[cfg(not(feature = "mutations"))]
    pub const fn is_on(self) -> bool {
        false
    }
}

#[cfg(test)]
#[cfg(feature = "mutations")]
mod tests {
    use std::process::Command;

    /// Whether the tests whose names contain `filter` pass in a process with `mutation`.
    fn passes(filter: &str, mutation: &str) -> bool {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([filter, "--test-threads=1"])
            .env("HITL_MUTATION", mutation)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("running 0 tests"), "{filter}: {said}");
        output.status.success()
    }

    #[test]
    fn a_store_without_syncs_goes_red() {
        let powercut = "store::sqlite::tests::disk::powercut::a_power_cut";
        assert!(passes(powercut, ""));
        assert!(!passes(powercut, "no_sync"));
    }

    #[test]
    fn a_store_without_the_epoch_check_goes_red() {
        for store in ["sqlite", "memory"] {
            for test in [
                format!("store::contract::turns::{store}::an_owner_that_was_replaced"),
                format!("store::contract::parking::{store}::parking_a_turn_takes_it_from_its_owner"),
            ] {
                assert!(passes(&test, ""), "{test}");
                assert!(!passes(&test, "no_epoch"), "{test}");
            }
        }
    }
}
