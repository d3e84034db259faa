//! What an expression may be, so that it needs little stack, and time and memory that grow with what it looks at.

use std::sync::Arc;

use cel::Env;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, operators,
};

use super::functions;

/// How deep an expression may nest, so that no stack overflows when it is read and evaluated.
pub const MAX_DEPTH: usize = 48;
/// What an expression can look at.
const VARIABLES: [&str; 5] = ["tool", "args", "agent", "source", "metadata"];
/// Those of any size.
const LARGE: [&str; 2] = ["args", "metadata"];
/// What `type(...)` can be compared with.
const TYPES: [&str; 10] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// Where a part of an expression stands.
#[derive(Clone, Copy)]
enum Around<'e> {
    /// In no loop.
    Nothing,
    /// In what a loop goes over.
    Range,
    /// In what it does with each element.
    Loop(&'e ComprehensionExpr),
}

/// Goes through an expression.
struct Check<'e> {
    /// Has the functions that there are.
    env: &'e Arc<Env>,
    /// Loops, and values that are put together into larger ones.
    times: usize,
}

/// How many times an expression may go over, or copy, what it looks at; at least once.
///
/// # Errors
/// Why it could take for ever, or nests too deep, or looks at or calls what is not there.
pub fn check(env: &Arc<Env>, expression: &IdedExpr) -> Result<usize, String> {
    let mut check = Check { env, times: 0 };
    check.part(expression, 0, Around::Nothing, false)?;
    Ok(check.times.max(1))
}

impl Check<'_> {
    /// `is_built_in`: whether it becomes a part of a larger value.
    fn part(
        &mut self,
        expression: &IdedExpr,
        depth: usize,
        around: Around<'_>,
        is_built_in: bool,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("nests deeper than {MAX_DEPTH}"));
        }
        let below = depth + 1;
        match &expression.expr {
            Expr::Unspecified => Err("is no CEL expression".to_owned()),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                self.times += usize::from(is_built_in);
                check_name(name, around)
            }
            Expr::Select(select) => self.part(&select.operand, below, around, is_built_in && !select.test),
            Expr::Call(call @ CallExpr { func_name, target, args }) => {
                functions::check(self.env, call)?;
                // What compares or measures makes nothing larger of it; an element and a branch are handed on.
                let hands_on = ![
                    operators::EQUALS,
                    operators::NOT_EQUALS,
                    operators::GREATER,
                    operators::GREATER_EQUALS,
                    operators::LESS,
                    operators::LESS_EQUALS,
                    operators::IN,
                    operators::LOGICAL_AND,
                    operators::LOGICAL_OR,
                    operators::LOGICAL_NOT,
                    "size",
                ]
                .contains(&func_name.as_str());
                let builds = func_name == operators::ADD || (is_built_in && hands_on);
                target.as_deref().into_iter().chain(args).try_for_each(|part| self.part(part, below, around, builds))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|part| self.part(part, below, around, true)),
            Expr::Comprehension(own) => match around {
                Around::Nothing => self.whole_loop(own, below),
                Around::Loop(_) => Err("loops inside of a loop, which could take for ever".to_owned()),
                Around::Range => Err("loops over what a loop made, which could take for ever".to_owned()),
            },
            Expr::Map(map) => self.entries(&map.entries, below, around),
            Expr::Struct(made) => self.entries(&made.entries, below, around),
        }
    }

    fn whole_loop(&mut self, own: &ComprehensionExpr, depth: usize) -> Result<(), String> {
        self.times += 1;
        self.part(&own.iter_range, depth, Around::Range, false)?;
        let around = Around::Loop(own);
        match Collects::of(own) {
            // What it collects of each element must not be larger than the element.
            Some(Collects { guard, kept }) => {
                guard.map_or(Ok(()), |guard| self.part(guard, depth + 1, around, false))?;
                self.part(kept, depth + 1, around, false)?;
                check_kept(kept, &own.iter_var)
            }
            None => [&own.accu_init, &own.loop_cond, &own.loop_step, &own.result]
                .into_iter()
                .try_for_each(|part| self.part(part, depth, around, false)),
        }
    }

    fn entries(&mut self, entries: &[IdedEntryExpr], depth: usize, around: Around<'_>) -> Result<(), String> {
        entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::StructField(field) => self.part(&field.value, depth, around, true),
            EntryExpr::MapEntry(entry) => {
                self.part(&entry.key, depth, around, true)?;
                self.part(&entry.value, depth, around, true)
            }
        })
    }
}

/// What `map` and `filter` are made of: `accu + [kept]`, or `guard ? accu + [kept] : accu`.
struct Collects<'e> {
    guard: Option<&'e IdedExpr>,
    kept: &'e IdedExpr,
}

impl<'e> Collects<'e> {
    fn of(own: &'e ComprehensionExpr) -> Option<Self> {
        let kept_by = |step: &'e IdedExpr| match &step.expr {
            Expr::Call(call) if call.func_name == operators::ADD => match call.args.as_slice() {
                [_, IdedExpr { expr: Expr::List(list), .. }] => list.elements.first(),
                _ => None,
            },
            _ => None,
        };
        match &own.loop_step.expr {
            Expr::Call(call) if call.func_name == operators::CONDITIONAL => match call.args.as_slice() {
                [guard, step, _] => kept_by(step).map(|kept| Self { guard: Some(guard), kept }),
                _ => None,
            },
            _ => kept_by(&own.loop_step).map(|kept| Self { guard: None, kept }),
        }
    }
}

/// # Errors
/// What is kept of each element may be larger than the element.
fn check_kept(kept: &IdedExpr, element: &str) -> Result<(), String> {
    let grows = || Err("keeps more than a part of each element, which could take all memory".to_owned());
    match &kept.expr {
        Expr::Ident(name) if name == element => Ok(()),
        Expr::Select(select) => check_kept(&select.operand, element),
        Expr::Literal(LiteralValue::String(_) | LiteralValue::Bytes(_)) => grows(),
        Expr::Literal(_) => Ok(()),
        Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
            [whole, _] => check_kept(whole, element),
            _ => grows(),
        },
        // A number or a yes is no larger than what it was made of, and `+` is more than numbers.
        Expr::Call(call)
            if [
                operators::SUBSTRACT,
                operators::MULTIPLY,
                operators::EQUALS,
                operators::GREATER,
                operators::LESS,
                "size",
            ]
            .contains(&call.func_name.as_str()) =>
        {
            Ok(())
        }
        _ => grows(),
    }
}

fn check_name(name: &str, around: Around<'_>) -> Result<(), String> {
    let is_bound = match around {
        Around::Loop(own) => {
            name == own.iter_var
                || name == own.accu_var
                || own.iter_var2.as_deref().is_some_and(|second| second == name)
        }
        Around::Nothing | Around::Range => false,
    };
    if matches!(around, Around::Loop(_)) && !is_bound && LARGE.contains(&name) {
        return Err(format!("looks at {name} inside of a loop, which could take for ever"));
    }
    if is_bound || VARIABLES.contains(&name) || TYPES.contains(&name) {
        return Ok(());
    }
    Err(format!("there is no variable {name:?}; there are tool, args, agent, source and metadata"))
}
