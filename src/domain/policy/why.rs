//! Why an expression could not tell, in few words: with types and names, for values may be large, or nobody's business.

use cel::{ExecutionError, Value};

/// The most characters of it.
const LONGEST: usize = 200;

/// What to say of an expression that could not be evaluated.
pub fn why(error: &ExecutionError) -> String {
    use ExecutionError as E;
    let text = match error {
        E::UnsupportedTargetType { target } => format!("it calls a function of {}", kind(target)),
        E::NotSupportedAsMethod { method, target } => format!("{} has no function {method:?}", kind(target)),
        E::UnsupportedKeyType(key) => format!("{} is no key", kind(key)),
        E::UnexpectedType { want, .. } => {
            let want = want.trim_start_matches("Arc<").trim_end_matches('>').to_lowercase();
            format!("a value is of another type than {want}")
        }
        E::ValuesNotComparable(one, other) => format!("{} cannot be compared with {}", kind(one), kind(other)),
        E::UnsupportedBinaryOperator(operator, one, other) => {
            format!("there is no {operator:?} of {} and {}", kind(one), kind(other))
        }
        E::UnsupportedIndex(index, whole) => format!("{} is no index of {}", kind(index), kind(whole)),
        E::DivisionByZero(_) => "division by zero".to_owned(),
        E::RemainderByZero(_) => "remainder of a division by zero".to_owned(),
        E::Overflow(operator, one, _) => format!("{operator:?} leaves the range of {}", kind(one)),
        E::IndexOutOfBounds(_) => "a list has no such index".to_owned(),
        E::DuplicateKey(_) => "a key is there twice".to_owned(),
        E::UndeclaredReference(name) if ["source", "metadata"].contains(&name.as_str()) => {
            format!("nobody knows the {name} of a call that a crash hit")
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.split_at(end).0),
        None => text,
    }
}

/// The type of a value, as CEL calls it.
pub fn kind(value: &Value) -> String {
    format!("{:?}", value.type_of()).to_lowercase()
}
