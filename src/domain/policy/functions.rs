//! Which functions there are for expressions: a name that is none never tells anything, whatever the call.

use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use cel::{Context, Env, ExecutionError};

/// Looks for what a call is of.
///
/// # Errors
/// That there is no such function, or none that is called so: of something, or by itself.
pub fn check(env: &Arc<Env>, call: &CallExpr) -> Result<(), String> {
    let name = &call.func_name;
    // Operators have names that nobody can write.
    if !name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') {
        return Ok(());
    }
    let null = || IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Null) };
    let target = call.target.as_ref().map(|_| Box::new(null()));
    let args = call.args.iter().map(|_| null()).collect();
    let asked = IdedExpr { id: 0, expr: Expr::Call(CallExpr { func_name: name.clone(), target, args }) };
    match Context::with_env(Arc::clone(env)).resolve(&asked) {
        Err(ExecutionError::UndeclaredReference(missing)) if *missing == *name => {
            let called = if call.target.is_some() { format!("x.{name}(...)") } else { format!("{name}(...)") };
            Err(format!("there is no function {called}"))
        }
        _ => Ok(()),
    }
}
