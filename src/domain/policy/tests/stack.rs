//! What reading and asking an expression needs of the stack of whoever does it. These threads have half of what those of a
//! server have.

use std::thread;

use super::*;
use crate::domain::policy::bounds::MAX_DEPTH;

const STACK: usize = 1024 * 1024;

/// What is wrong with an expression; one that is taken is asked too.
fn read_and_ask(expression: &str) -> Option<String> {
    thread::scope(|scope| {
        let read = || match Rules::compile(vec![when(Effect::Allow, expression)]) {
            Ok(rules) => {
                rules.says(call(&json!({"a": [1, [2, [3]]], "amount": 5})));
                None
            }
            Err(errors) => errors.first().map(|error| error.msg.clone()),
        };
        thread::Builder::new().stack_size(STACK).spawn_scoped(scope, read).unwrap().join().unwrap()
    })
}

#[test]
fn the_deepest_expression_that_is_taken_needs_little_of_it() {
    let most = MAX_DEPTH;
    for (opening, inmost, closing, times) in [
        ("(", "tool == 'a'", ")", most),
        ("[", "1", "]", most),
        ("{1:", "1", "}", most),
        ("size(", "tool", ")", most),
        ("tool.contains(", "tool", ")", most),
        ("args.a[", "0", "]", most - 2),
        ("!(true && ", "false", ")", most / 2),
        ("(1 + -", "1", ")", most / 2),
        ("[args.a == ", "1", "]", most / 2 - 1),
        ("true ? true : ", "false", "", most),
        ("", "tool == 'a'", " || tool == 'b'", 60),
        ("", "args.a", ".a", most - 2),
        ("", "1", " + 1", most),
        ("", "1", " < 1", most),
    ] {
        let expression = opening.repeat(times) + inmost + &closing.repeat(times);
        assert_eq!(read_and_ask(&expression), None, "{expression}");
    }
}

#[test]
fn the_deepest_that_is_refused_needs_little_of_it_too() {
    for part in
        ["(", "[", "{", "f(", "a[", "!(", "-(", "{1:", "a?b:", "1+", "1<", "a||", ".a", "[0]", "r'\\'(", "1r'\\'("]
    {
        for expression in [part.repeat(1000 / part.len()), format!("a{}", part.repeat(999 / part.len()))] {
            assert!(read_and_ask(&expression).is_some(), "{expression}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_expression_needs_more_of_it(
        opening in prop::collection::vec(
            prop::sample::select(vec!["(", "[", "{1:", "size(", "tool.contains(", "a[", "!", "-", "1+(", "true&&(", "a?b:"]),
            0..60,
        ),
        middle in "[a-c1()\\[\\]{}'\"?:. +!-]{0,20}",
        closing in "[)\\]}]{0,60}",
    ) {
        drop(read_and_ask(&(opening.concat() + &middle + &closing)));
    }
}
