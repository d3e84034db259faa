//! Predicates of rules: expressions of CEL (the Common Expression Language) over a call.
//!
//! Whatever they meet, they end soon and stay small. CEL has no loops but over lists and maps; here one may neither be in
//! another nor go over what another made, and looks at nothing but its own element, so that nothing can be doubled again
//! and again. Patterns are compiled when the rule is loaded, and run in linear time. What is left to multiply an
//! argument is counted when the rule is loaded, and has a largest product with the size of what is looked at.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::ast::IdedExpr;
use cel::{Context, Env, ExecutionError};
use serde_json::Value;

use super::bounds;
use super::call::Call;
use super::nesting;
use super::patterns::{self, Patterns};
use super::source::{named, without_place};
use super::why::{kind, why};
use crate::domain::JsonObject;
use crate::domain::apart;
use crate::domain::payload::json_size;

/// The most characters of an expression.
pub const MAX_LENGTH: usize = 1000;
/// Bytes of arguments and metadata as compact JSON that are looked at, by an expression that looks at them once; by one that does so
/// several times so many times fewer.
pub const MAX_ARGS: usize = 1024 * 1024;

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Predicate {
    expression: Arc<IdedExpr>,
    patterns: Patterns,
    /// How often it looks at the whole of the arguments, or may copy them.
    times: usize,
    /// As it was written.
    text: Arc<str>,
}

/// The variables of expressions, for one call.
pub struct ExpressionVariables {
    size: usize,
    tool: cel::Value,
    agent: cel::Value,
    args: cel::Value,
    /// Where the tool is from, and what the code says of the call. An expression that looks at them where nobody knows
    /// cannot tell.
    origin: Option<(Option<String>, cel::Value)>,
}

impl Predicate {
    /// Reads an expression.
    ///
    /// # Errors
    /// Why it is none, or one that could take for ever.
    pub fn compile(source: &str) -> Result<Self, String> {
        apart::takes_its_time();
        if source.chars().count() > MAX_LENGTH {
            return Err(format!("is longer than {MAX_LENGTH} characters"));
        }
        nesting::check(source)?;
        // A bug of the parser's is no rule, and not the server's end.
        catch_unwind(|| parse(source)).unwrap_or_else(|_| Err("is no CEL expression".to_owned()))
    }

    /// Whether it is true of a call.
    ///
    /// # Errors
    /// Why it cannot tell: an argument is missing, or of a type that an operator or a function does not take (`==` takes any), the
    /// arguments are too large, or it is no yes or no.
    pub fn is_met(&self, scope: &ExpressionVariables) -> Result<bool, String> {
        apart::takes_its_time();
        let most = MAX_ARGS / self.times;
        if scope.size > most {
            return Err(too_large(scope.size, most));
        }
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value("tool", scope.tool.clone());
        context.add_variable_from_value("agent", scope.agent.clone());
        context.add_variable_from_value("args", scope.args.clone());
        if let Some((source, metadata)) = &scope.origin {
            let source = source.as_deref().map(|source| named(source, &self.text).to_owned());
            context.add_variable_from_value("source", source.map_or(cel::Value::Null, cel::Value::from));
            context.add_variable_from_value("metadata", metadata.clone());
        }
        let patterns = self.patterns.clone();
        context
            .add_function(patterns::FUNCTION, move |text: Arc<String>, number: u64| -> Result<bool, ExecutionError> {
                patterns.fits(number, &text)
            })
            .map_err(|error| error.to_string())?;
        // A bug of the evaluator's is no permission, and not the server's end.
        let outcome = catch_unwind(AssertUnwindSafe(|| context.resolve(&self.expression)))
            .map_err(|_| "the expression could not be evaluated".to_owned())?;
        match outcome {
            Ok(cel::Value::Bool(is_met)) => Ok(is_met),
            Ok(other) => Err(format!("is {} and no boolean", kind(&other))),
            Err(error) => Err(why(&error)),
        }
    }
}

impl ExpressionVariables {
    /// Those of `call`.
    ///
    /// # Errors
    /// Its arguments, and what comes with them, are too large to be looked at.
    pub fn of(call: Call<'_>) -> Result<Self, String> {
        let metadata = call.origin.and_then(|origin| origin.metadata);
        let size = json_size(call.args).saturating_add(metadata.map_or(0, json_size));
        if size > MAX_ARGS {
            return Err(too_large(size, MAX_ARGS));
        }
        let text = |text: Option<&str>| text.map_or(cel::Value::Null, |text| text.to_owned().into());
        Ok(Self {
            size,
            tool: call.tool.to_owned().into(),
            agent: text(call.agent),
            args: value(call.args),
            origin: call.origin.map(|origin| {
                (
                    origin.source.and_then(without_place).map(str::to_owned),
                    object(origin.metadata.unwrap_or(&JsonObject::new())),
                )
            }),
        })
    }
}

fn too_large(size: usize, most: usize) -> String {
    format!("the arguments and metadata are {size} bytes of JSON, of which at most {most} are looked at")
}

fn parse(source: &str) -> Result<Predicate, String> {
    let program = ENV.compile(source).map_err(|errors| first_line(&errors.to_string()))?;
    let mut expression = program.expression().clone();
    let times = bounds::check(&ENV, &expression)?;
    let patterns = Patterns::of(&mut expression)?;
    Ok(Predicate { expression: Arc::new(expression), patterns, times, text: source.into() })
}

/// `ERROR: <input>:1:4: Syntax error: ...` without what says nothing here.
fn first_line(errors: &str) -> String {
    let line = errors.lines().next().unwrap_or("is no CEL expression");
    match line.split_once("<input>:1:") {
        Some((_, rest)) => format!("at character {rest}"),
        None => line.to_owned(),
    }
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
        Value::Object(members) => object(members),
    }
}

fn object(members: &JsonObject) -> cel::Value {
    let members: HashMap<String, cel::Value> =
        members.iter().map(|(name, member)| (name.clone(), value(member))).collect();
    members.into()
}
