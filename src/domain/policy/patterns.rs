//! Patterns of `matches`: written in the rule, compiled when it is loaded, and run in linear time.

use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue};
use cel::{ExecutionError, common::types::CelUInt};
use regex::{Regex, RegexBuilder};

/// The function of CEL, and what stands for it in a compiled expression.
const MATCHES: &str = "matches";
pub const FUNCTION: &str = "hitl_matches";
/// Bytes of memory that a compiled pattern may take, so that it also runs soon.
const MAX_SIZE: usize = 256 * 1024;

/// The patterns of one expression, by number.
#[derive(Debug, Clone, Default)]
pub struct Patterns(Arc<Vec<Regex>>);

impl Patterns {
    /// Takes the patterns out of an expression: each stands there as its number from now on.
    ///
    /// # Errors
    /// A pattern is none, is too large, or is not written in the rule.
    pub fn of(expression: &mut IdedExpr) -> Result<Self, String> {
        let mut found = Vec::new();
        take(expression, &mut found)?;
        Ok(Self(Arc::new(found)))
    }

    /// Whether a pattern is found in `text`.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn fits(&self, number: u64, text: &str) -> Result<bool, ExecutionError> {
        let pattern = usize::try_from(number).ok().and_then(|number| self.0.get(number));
        pattern
            .map(|pattern| pattern.is_match(text))
            .ok_or_else(|| ExecutionError::function_error(MATCHES, "there is no such pattern"))
    }
}

fn take(expression: &mut IdedExpr, found: &mut Vec<Regex>) -> Result<(), String> {
    let mut each = |parts: &mut dyn Iterator<Item = &mut IdedExpr>| {
        for part in parts {
            take(part, found)?;
        }
        Ok(())
    };
    match &mut expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Ok(()),
        Expr::Select(select) => take(&mut select.operand, found),
        Expr::Call(call) => {
            each(&mut call.target.as_deref_mut().into_iter().chain(&mut call.args))?;
            if call.func_name == FUNCTION {
                return Err(format!("there is no function {FUNCTION:?}"));
            }
            if call.func_name == MATCHES
                && let Some(pattern) = call.args.last_mut()
            {
                let number = found.len() as u64;
                found.push(compile(pattern)?);
                pattern.expr = Expr::Literal(LiteralValue::UInt(CelUInt::from(number)));
                call.func_name = FUNCTION.to_owned();
                // The text comes first, however the rule calls it.
                call.args.splice(..0, call.target.take().map(|text| *text));
            }
            Ok(())
        }
        Expr::List(list) => each(&mut list.elements.iter_mut()),
        Expr::Comprehension(own) => each(
            &mut [&mut own.iter_range, &mut own.accu_init, &mut own.loop_cond, &mut own.loop_step, &mut own.result]
                .into_iter(),
        ),
        Expr::Map(map) => map.entries.iter_mut().try_for_each(|entry| take_entry(entry, found)),
        Expr::Struct(made) => made.entries.iter_mut().try_for_each(|entry| take_entry(entry, found)),
    }
}

fn take_entry(entry: &mut IdedEntryExpr, found: &mut Vec<Regex>) -> Result<(), String> {
    match &mut entry.expr {
        EntryExpr::StructField(field) => take(&mut field.value, found),
        EntryExpr::MapEntry(entry) => {
            take(&mut entry.key, found)?;
            take(&mut entry.value, found)
        }
    }
}

fn compile(pattern: &IdedExpr) -> Result<Regex, String> {
    let Expr::Literal(LiteralValue::String(text)) = &pattern.expr else {
        return Err("the pattern of matches has to be written in the rule, as text".to_owned());
    };
    let compiled = RegexBuilder::new(text.inner()).size_limit(MAX_SIZE).build();
    compiled.map_err(|error| {
        // The last line says what is wrong; those before it show where, in several lines.
        let why = error.to_string();
        format!("the pattern {:?} of matches: {}", text.inner(), why.lines().last().unwrap_or("is none"))
    })
}
