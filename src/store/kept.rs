//! What takes longer to make than to find again, kept by the digest of what it was made of: a number of things at most,
//! made of a number of bytes at most. Each owner has one of its own.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::domain::Error;
use crate::domain::decision::{Forms, Terms};
use crate::domain::schema::{self, CompiledSchema, Validators};

/// See the module. Read by all threads at once, written where something new is made.
#[derive(Debug)]
pub struct Kept<T> {
    limits: Limits,
    shelf: RwLock<Shelf<T>>,
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many things.
    pub most: usize,
    /// Bytes of JSON that all of them were made of. What was made weighs some times as much.
    pub bytes: usize,
}

/// The digest of what a thing was made of.
type KeptKey = [u8; 32];

#[derive(Debug)]
struct Shelf<T> {
    made: HashMap<KeptKey, T>,
    /// Those made first are in front, each with the bytes that it was made of.
    order: VecDeque<(KeptKey, usize)>,
    bytes: usize,
}

impl<T: Clone> Kept<T> {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, shelf: RwLock::new(Shelf { made: HashMap::new(), order: VecDeque::new(), bytes: 0 }) }
    }

    /// What was made of `source`, or else what `make` makes of it now. Nothing is locked meanwhile.
    ///
    /// # Errors
    /// Those of `make`, of which nothing is kept.
    pub fn find_or_make(&self, source: &impl Serialize, make: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.find_or_make_weighed(source, make, |_| 0)
    }

    /// The same, of what may weigh more than its source says: so many bytes are counted besides.
    fn find_or_make_weighed(
        &self,
        source: &impl Serialize,
        make: impl FnOnce() -> Result<T, Error>,
        weight: impl FnOnce(&T) -> usize,
    ) -> Result<T, Error> {
        // A source that cannot be written as JSON has no digest, and is not kept.
        let Some((key, bytes)) = digest(source) else { return make() };
        // A panic elsewhere cannot leave half a thing.
        let found = self.shelf.read().unwrap_or_else(PoisonError::into_inner).made.get(&key).cloned();
        if let Some(found) = found {
            return Ok(found);
        }
        let made = make()?;
        let bytes = bytes.saturating_add(weight(&made));
        if bytes <= self.limits.bytes {
            self.shelf.write().unwrap_or_else(PoisonError::into_inner).put(key, bytes, made.clone(), self.limits);
        }
        Ok(made)
    }
}

impl<T> Shelf<T> {
    fn put(&mut self, key: KeptKey, bytes: usize, made: T, limits: Limits) {
        // Somebody else may have made it meanwhile.
        if self.made.insert(key, made).is_none() {
            self.order.push_back((key, bytes));
            self.bytes += bytes;
        }
        while self.order.len() > limits.most || self.bytes > limits.bytes {
            let Some((oldest, bytes)) = self.order.pop_front() else { return };
            self.made.remove(&oldest);
            self.bytes -= bytes;
        }
    }
}

/// The digest of `source` as JSON text, and how long that is. The order of members counts: what is wrong is told in it.
fn digest(source: &impl Serialize) -> Option<(KeptKey, usize)> {
    let mut text = Text { digest: Sha256::new(), bytes: 0 };
    serde_json::to_writer(&mut text, source).ok()?;
    Some((text.digest.finalize().into(), text.bytes))
}

/// Text that is only looked at.
struct Text {
    digest: Sha256,
    bytes: usize,
}

impl io::Write for Text {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.digest.update(part);
        self.bytes += part.len();
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Validators for Kept<Arc<CompiledSchema>> {
    fn validator(&self, schema: &Value) -> Result<Arc<CompiledSchema>, Error> {
        self.find_or_make_weighed(schema, || schema::Anew.validator(schema), |compiled| compiled.weight())
    }
}

/// The schemas of decisions: a program has some tools, and asks about them again and again.
pub type KeptForms = Kept<Arc<Value>>;

impl Default for KeptForms {
    fn default() -> Self {
        Self::new(Limits { most: 256, bytes: 4 * 1024 * 1024 })
    }
}

impl Forms for KeptForms {
    fn form(&self, terms: Terms<'_>) -> Arc<Value> {
        let anew = || schema::Anew.form(terms);
        let source = (terms.allowed, terms.tool_name, terms.args_schema);
        self.find_or_make(&source, || Ok(anew())).unwrap_or_else(|_| anew())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::domain::decision::{self, DecisionKind};

    fn keeps(most: usize, bytes: usize) -> Kept<usize> {
        Kept::new(Limits { most, bytes })
    }

    /// Whether what is made of `source` had to be made.
    fn is_made(kept: &Kept<usize>, source: &str) -> bool {
        let made = Cell::new(false);
        let found = kept.find_or_make(&source, || {
            made.set(true);
            Ok(source.len())
        });
        assert_eq!(found, Ok(source.len()));
        made.get()
    }

    #[test]
    fn what_was_made_is_found_again_and_the_oldest_gives_way() {
        let kept = keeps(2, 1000);
        assert!(is_made(&kept, "a") && is_made(&kept, "b"));
        assert!(!is_made(&kept, "a") && !is_made(&kept, "b"));
        assert!(is_made(&kept, "c"));
        assert!(!is_made(&kept, "b") && !is_made(&kept, "c"));
        assert!(is_made(&kept, "a"));
    }

    #[test]
    fn no_more_bytes_are_kept_than_may_be() {
        let kept = keeps(1000, 100);
        let (large, larger) = ("l".repeat(60), "m".repeat(200));
        assert!(is_made(&kept, "small") && is_made(&kept, &large));
        // What is too large by itself drives nothing else out.
        assert!(is_made(&kept, &larger) && is_made(&kept, &larger));
        assert!(!is_made(&kept, "small") && !is_made(&kept, &large));
        assert!(is_made(&kept, &"n".repeat(90)));
        assert!(is_made(&kept, "small"));
        let shelf = kept.shelf.read().unwrap();
        assert_eq!(shelf.bytes, shelf.order.iter().map(|(_, bytes)| bytes).sum::<usize>());
        assert_eq!(shelf.made.len(), shelf.order.len());
    }

    #[test]
    fn what_could_not_be_made_is_tried_again() {
        let kept = keeps(10, 1000);
        let refused = kept.find_or_make(&"a", || Err(Error::InvalidSchema("no".to_owned())));
        assert_eq!(refused, Err(Error::InvalidSchema("no".to_owned())));
        assert!(is_made(&kept, "a"));
    }

    #[test]
    fn a_schema_is_compiled_once_and_one_with_its_members_in_another_order_is_another() {
        let kept: Kept<Arc<CompiledSchema>> = Kept::new(Limits { most: 10, bytes: 1000 });
        let validator = |text: &str| kept.validator(&serde_json::from_str(text).unwrap()).unwrap();
        let (one, other) = (r#"{"minimum": 1, "multipleOf": 2}"#, r#"{"multipleOf": 2, "minimum": 1}"#);
        assert!(Arc::ptr_eq(&validator(one), &validator(one)));
        assert!(!Arc::ptr_eq(&validator(one), &validator(other)));
        assert!(kept.validator(&json!({"type": "none"})).is_err());
    }

    #[test]
    fn the_schema_of_a_tool_is_made_once_however_many_tools_there_are() {
        let forms = KeptForms::default();
        let tools: Vec<(String, Value)> =
            (0..100).map(|tool| (format!("tool_{tool}"), json!({"type": "object", "maxProperties": tool}))).collect();
        let schemas = || -> Vec<Arc<Value>> {
            let of = |(name, args): &(String, Value)| {
                let terms = Terms { allowed: &DecisionKind::ALL, tool_name: Some(name), args_schema: Some(args) };
                assert_eq!(*forms.form(terms), decision::response_schema(terms));
                forms.form(terms)
            };
            tools.iter().map(of).collect()
        };
        let (made, again) = (schemas(), schemas());
        assert!(made.iter().zip(&again).all(|(made, again)| Arc::ptr_eq(made, again)));
    }

    #[test]
    fn the_schemas_of_calls_that_differ_in_anything_are_kept_apart() {
        let forms = KeptForms::default();
        let (small, large) = (json!({"maxProperties": 1}), json!({"maxProperties": 2}));
        let approvals = [DecisionKind::Approve, DecisionKind::Reject];
        let first = Terms { allowed: &DecisionKind::ALL, tool_name: Some("pay"), args_schema: Some(&small) };
        let others = [
            Terms { allowed: &approvals, ..first },
            Terms { tool_name: Some("send"), ..first },
            Terms { tool_name: None, ..first },
            Terms { args_schema: Some(&large), ..first },
            Terms { args_schema: None, ..first },
        ];
        let kept = forms.form(first);
        for other in others {
            let form = forms.form(other);
            assert!(!Arc::ptr_eq(&form, &kept), "{other:?}");
            assert_eq!(*form, decision::response_schema(other), "{other:?}");
        }
        assert!(Arc::ptr_eq(&forms.form(first), &kept));
    }

    #[test]
    fn whoever_reads_waits_for_no_other_reader() {
        let kept = keeps(10, 1000);
        assert!(is_made(&kept, "a"));
        let _reading = kept.shelf.read().unwrap();
        std::thread::scope(|scope| {
            assert!(!scope.spawn(|| is_made(&kept, "a")).join().unwrap());
        });
    }
}
