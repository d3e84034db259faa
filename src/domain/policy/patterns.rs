//! Patterns of `matches`: written in the rule, compiled when it is loaded, and run in linear time, a few steps a byte. One
//! that would need many for each (`[ab]*a[ab]{3000}c`) gives up, and its rule cannot tell.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue};
use cel::{ExecutionError, common::types::CelUInt};
use regex::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::{Input, MatchErrorKind};

/// The function of CEL, and what stands for it in a compiled expression.
const MATCHES: &str = "matches";
pub const FUNCTION: &str = "hitl_matches";
/// Bytes of memory that a compiled pattern may take, so that it also runs soon.
const MAX_SIZE: usize = 256 * 1024;
/// Those of all patterns of one expression.
const MAX_SIZES: usize = 2 * MAX_SIZE;
/// Bytes of memory for what a pattern is seen to go through. Most never fill it.
const CACHE: usize = 1024 * 1024;
/// How often that may fill up before the pattern has to go on at least so many bytes for each state that it adds.
const CLEARS: usize = 2;
const BYTES_A_STATE: usize = 100;
/// Steps that may be taken over a text for which that cannot be told in advance.
const MAX_STEPS: usize = 16 * 1024 * 1024;

/// The patterns of one expression, by number.
#[derive(Debug, Clone, Default)]
pub struct Patterns(Arc<Vec<Pattern>>);

/// Makes room for a search.
type MakeCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

#[derive(Debug)]
struct Pattern {
    automaton: DFA,
    caches: Pool<Cache, MakeCache>,
    /// For what the automaton does not read: where words end in a text that is not ASCII.
    slow: Regex,
}

impl Pattern {
    fn is_match(&self, text: &str) -> Result<bool, &'static str> {
        let mut cache = self.caches.get();
        let found = self.automaton.try_search_fwd(&mut cache, &Input::new(text).earliest(true));
        match found.map_err(|error| error.kind().clone()) {
            Ok(found) => Ok(found.is_some()),
            Err(MatchErrorKind::Quit { .. }) if self.steps().saturating_mul(text.len()) <= MAX_STEPS => {
                Ok(self.slow.is_match(text))
            }
            Err(_) => Err("the pattern takes too many steps over this text"),
        }
    }

    /// The most that are taken for one byte.
    fn steps(&self) -> usize {
        self.automaton.get_nfa().states().len()
    }
}

impl Patterns {
    /// Takes the patterns out of an expression: each stands there as its number from now on.
    ///
    /// # Errors
    /// A pattern is none, is too large, or is not written in the rule.
    pub fn of(expression: &mut IdedExpr) -> Result<Self, String> {
        let mut found = Vec::new();
        take(expression, &mut found)?;
        let size: usize = found.iter().map(|pattern| pattern.automaton.get_nfa().memory_usage()).sum();
        if size > MAX_SIZES {
            return Err("the patterns of matches are too large together".to_owned());
        }
        Ok(Self(Arc::new(found)))
    }

    /// Whether a pattern is found in `text`.
    ///
    /// # Errors
    /// There is none of this number, or it takes too long.
    pub fn fits(&self, number: u64, text: &str) -> Result<bool, ExecutionError> {
        let pattern = usize::try_from(number).ok().and_then(|number| self.0.get(number));
        let found = pattern.ok_or("there is no such pattern").and_then(|pattern| pattern.is_match(text));
        found.map_err(|why| ExecutionError::function_error(MATCHES, why))
    }
}

fn take(expression: &mut IdedExpr, found: &mut Vec<Pattern>) -> Result<(), String> {
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

fn take_entry(entry: &mut IdedEntryExpr, found: &mut Vec<Pattern>) -> Result<(), String> {
    match &mut entry.expr {
        EntryExpr::StructField(field) => take(&mut field.value, found),
        EntryExpr::MapEntry(entry) => {
            take(&mut entry.key, found)?;
            take(&mut entry.value, found)
        }
    }
}

fn compile(pattern: &IdedExpr) -> Result<Pattern, String> {
    let Expr::Literal(LiteralValue::String(text)) = &pattern.expr else {
        return Err("the pattern of matches has to be written in the rule, as text".to_owned());
    };
    let text = text.inner();
    // The last line says what is wrong; those before it show where, in several lines.
    let wrong = |why: String| format!("the pattern {text:?} of matches: {}", why.lines().last().unwrap_or("is none"));
    let slow = RegexBuilder::new(text).size_limit(MAX_SIZE).build().map_err(|error| wrong(error.to_string()))?;
    let bounds = DFA::config()
        .cache_capacity(CACHE)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(Some(CLEARS))
        .minimum_bytes_per_state(Some(BYTES_A_STATE))
        .unicode_word_boundary(true);
    let automaton = DFA::builder()
        .thompson(thompson::Config::new().nfa_size_limit(Some(MAX_SIZE)))
        .configure(bounds)
        .build(text)
        .map_err(|error| wrong(error.to_string()))?;
    let makes = automaton.clone();
    Ok(Pattern { automaton, caches: Pool::new(Box::new(move || makes.create_cache())), slow })
}
