//! Predicates of rules: expressions of CEL (the Common Expression Language) over a call.
//!
//! Whatever they meet, they end soon: CEL has no loops but over lists and maps. Here a loop may not be in another, nor look
//! at anything but its own element, patterns run in linear time, and what is looked at has a largest size.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr};
use cel::{Context, Env, Program};
use serde_json::Value;

use super::rules::Call;
use crate::domain::payload::json_size;

/// The most characters of an expression.
pub const MAX_LENGTH: usize = 1000;
/// How deep an expression may nest, so that no stack overflows when it is evaluated.
const MAX_DEPTH: usize = 48;
/// Bytes of arguments as compact JSON that are looked at.
pub const MAX_ARGS: usize = 64 * 1024;
/// The parser needs much stack for little text, most of all without optimisation.
const PARSER_STACK: usize = 64 * 1024 * 1024;

/// What an expression can look at.
const VARIABLES: [&str; 3] = ["tool", "args", "agent"];
/// What `type(...)` can be compared with.
const TYPES: [&str; 10] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Predicate(Arc<Program>);

/// The variables of an expression, for one call.
pub struct Scope<'v>(Context<'v, 'v>);

impl Predicate {
    /// Reads an expression.
    ///
    /// # Errors
    /// Why it is none, or one that could take for ever.
    pub fn compile(source: &str) -> Result<Self, String> {
        if source.chars().count() > MAX_LENGTH {
            return Err(format!("is longer than {MAX_LENGTH} characters"));
        }
        let source = source.to_owned();
        let parser = std::thread::Builder::new()
            .name("hitl-policy".to_owned())
            .stack_size(PARSER_STACK)
            .spawn(move || parse(&source))
            .map_err(|error| format!("cannot be read now: {error}"))?;
        parser.join().unwrap_or_else(|_| Err("is no CEL expression".to_owned()))
    }

    /// Whether it is true of a call.
    ///
    /// # Errors
    /// Why it cannot tell: an argument is missing or of another type, or it is no yes or no.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<bool, String> {
        // A bug of the evaluator's is no permission, and not the server's end.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.0.execute(&scope.0)))
            .map_err(|_| "the expression could not be evaluated".to_owned())?;
        match outcome {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(format!("is {} and no boolean", kind(&other))),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Scope<'_> {
    /// Those of `call`.
    ///
    /// # Errors
    /// Its arguments are too large to be looked at.
    pub fn of(call: Call<'_>) -> Result<Self, String> {
        let size = json_size(call.args);
        if size > MAX_ARGS {
            return Err(format!("the arguments are {size} bytes of JSON, of which at most {MAX_ARGS} are looked at"));
        }
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value("tool", call.tool.to_owned());
        context.add_variable_from_value("agent", call.agent.map_or(cel::Value::Null, |agent| agent.to_owned().into()));
        context.add_variable_from_value("args", value(call.args));
        Ok(Self(context))
    }
}

fn parse(source: &str) -> Result<Predicate, String> {
    let program = ENV.compile(source).map_err(|errors| first_line(&errors.to_string()))?;
    check(program.expression(), 0, None)?;
    Ok(Predicate(Arc::new(program)))
}

/// `ERROR: <input>:1:4: Syntax error: ...` without what says nothing here.
fn first_line(errors: &str) -> String {
    let line = errors.lines().next().unwrap_or("is no CEL expression");
    match line.split_once("<input>:1:") {
        Some((_, rest)) => format!("at character {rest}"),
        None => line.to_owned(),
    }
}

/// Whether an expression can be evaluated in little stack, in time that grows with what it looks at, and without a name
/// that is not there. `around` is the loop that it is in.
fn check(expression: &IdedExpr, depth: usize, around: Option<&ComprehensionExpr>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("nests deeper than {MAX_DEPTH}"));
    }
    let all = |parts: &mut dyn Iterator<Item = &IdedExpr>, around: Option<&ComprehensionExpr>| {
        for part in parts {
            check(part, depth + 1, around)?;
        }
        Ok(())
    };
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => Ok(()),
        Expr::Ident(name) => check_name(name, around),
        Expr::Select(select) => check(&select.operand, depth + 1, around),
        Expr::Call(CallExpr { target, args, .. }) => all(&mut target.as_deref().into_iter().chain(args), around),
        Expr::List(list) => all(&mut list.elements.iter(), around),
        Expr::Comprehension(_) if around.is_some() => {
            Err("loops inside of a loop, which could take for ever".to_owned())
        }
        Expr::Comprehension(own) => {
            check(&own.iter_range, depth + 1, None)?;
            all(&mut [&own.accu_init, &own.loop_cond, &own.loop_step, &own.result].into_iter(), Some(own))
        }
        Expr::Map(map) => check_entries(&map.entries, depth, around),
        Expr::Struct(made) => check_entries(&made.entries, depth, around),
    }
}

fn check_entries(entries: &[IdedEntryExpr], depth: usize, around: Option<&ComprehensionExpr>) -> Result<(), String> {
    entries.iter().try_for_each(|entry| match &entry.expr {
        EntryExpr::StructField(field) => check(&field.value, depth + 1, around),
        EntryExpr::MapEntry(entry) => {
            check(&entry.key, depth + 1, around)?;
            check(&entry.value, depth + 1, around)
        }
    })
}

fn check_name(name: &str, around: Option<&ComprehensionExpr>) -> Result<(), String> {
    let is_bound = around.is_some_and(|own| {
        name == own.iter_var || name == own.accu_var || own.iter_var2.as_deref().is_some_and(|second| second == name)
    });
    if around.is_some() && !is_bound && name == "args" {
        return Err("looks at args inside of a loop over it, which could take for ever".to_owned());
    }
    if is_bound || VARIABLES.contains(&name) || TYPES.contains(&name) {
        return Ok(());
    }
    Err(format!("there is no variable {name:?}; there are tool, args and agent"))
}

/// JSON as CEL has it: a whole number is an integer, whether it has a sign or not.
fn value(json: &Value) -> cel::Value {
    match json {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => cel::Value::Int(number),
            (None, Some(number)) => cel::Value::UInt(number),
            (None, None) => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(value).collect())),
        Value::Object(members) => {
            let members: HashMap<String, cel::Value> =
                members.iter().map(|(name, member)| (name.clone(), value(member))).collect();
            members.into()
        }
    }
}

fn kind(value: &cel::Value) -> String {
    format!("{:?}", value.type_of()).to_lowercase()
}
