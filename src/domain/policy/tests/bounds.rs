//! What an expression may be, so that no rule takes all memory or for ever.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn an_expression_that_could_double_something_again_and_again_is_none() {
    let chain = |link: &str| format!("size([tool]{}) > 0", link.repeat(20));
    for (expression, why) in [
        (chain(".map(x,x+x)"), "what a loop made"),
        (chain(".map(x,[x,x])"), "what a loop made"),
        ("[args.a.map(x, x)].all(x, size(x) > 0)".to_owned(), "what a loop made"),
        ("(args.a.exists(x, x > 1) ? args.a : args.b).all(x, x > 1)".to_owned(), "what a loop made"),
        ("args.a.map(x, x + x) == []".to_owned(), "all memory"),
        ("args.a.map(x, [x, x, x]) == []".to_owned(), "all memory"),
        ("args.a.map(x, {'a': x, 'b': x}) == []".to_owned(), "all memory"),
        (format!("args.a.map(x, '{}') == []", "y".repeat(900)), "all memory"),
        ("args.a.map(x, tool) == []".to_owned(), "all memory"),
        ("args.a.map(x, x > 1, x + x) == []".to_owned(), "all memory"),
        ("args.a.map(x, true ? x : [x, x]) == []".to_owned(), "all memory"),
    ] {
        let errors = Rules::compile(vec![when(Effect::Deny, &expression)]).unwrap_err();
        assert!(errors[0].msg.contains(why), "{expression}: {}", errors[0].msg);
    }
}

#[test]
fn loops_beside_each_other_and_parts_of_elements_are_fine() {
    let args = json!({"rows": [{"to": "a@x.nz", "n": 3}, {"to": "b@y.nz", "n": 5}], "tags": ["prod", "eu"]});
    for (expression, holds) in [
        ("args.rows.all(row, row.n + 1 > 3) && args.tags.exists(tag, tag in ['prod', 'live'])", true),
        ("size(args.rows.filter(row, row.n + row.n > 8)) == 1", true),
        ("args.rows.map(row, row.to) == ['a@x.nz', 'b@y.nz']", true),
        ("args.rows.map(row, row.n > 4, row['to']) == ['b@y.nz']", true),
        ("args.rows.map(row, row.n * 2) == [6, 10]", true),
        ("args.rows.exists_one(row, row.to.matches('^b@'))", true),
        ("matches(args.tags[0], 'o.$')", true),
        ("args.tags.all(tag, tag.matches('^p'))", false),
        ("[args.rows[0].to, args.rows[1].to].all(to, to.endsWith('.nz'))", true),
    ] {
        assert_eq!(tell(expression, &args), (holds, None), "{expression}");
    }
}

#[test]
fn patterns_are_written_in_the_rule_and_looked_at_when_it_is_loaded() {
    for (expression, why) in [
        ("args.to.matches('(')", "unclosed group"),
        ("args.to.matches(args.pattern)", "written in the rule"),
        ("args.to.matches('a' + 'b')", "written in the rule"),
        ("args.to.matches('(a{999}){999}')", "size limit"),
        ("hitl_matches(args.to, 0u)", "no function"),
    ] {
        let errors = Rules::compile(vec![when(Effect::Deny, expression)]).unwrap_err();
        assert!(errors[0].msg.contains(why), "{expression}: {}", errors[0].msg);
    }
}

#[test]
fn what_looks_at_the_arguments_many_times_looks_at_smaller_ones() {
    let args = json!({"a": vec![1; MAX_ARGS / 20]});
    let once = "args.a.all(x, x == 1)";
    assert_eq!(tell(once, &args), (true, None));
    let (many, copies) = (vec![once; 20].join(" && "), format!("size([{}]) > 0", vec!["args"; 40].join(",")));
    for expression in [many, copies, vec!["args.a"; 40].join("+") + " == []"] {
        let (_, failed) = tell(&expression, &args);
        assert!(failed.is_some_and(|why| why.contains("at most")), "{expression}");
    }
}

#[test]
fn the_worst_that_is_taken_ends_soon() {
    let args = json!({"a": vec!["aaaaaaaaaa"; MAX_ARGS / 13 / 20]});
    let loops = vec!["args.a.all(x, x.matches('^(a+)+$'))"; 20].join("&&");
    let started = Instant::now();
    assert_eq!(tell(&loops, &args), (true, None));
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn a_pattern_that_takes_too_many_steps_over_a_text_cannot_tell() {
    // No text is like this by chance; nor has it a period that an automaton could learn.
    let mut seed = 88_172_645_463_325_252_u64;
    let mut letter = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        if seed & 1 == 1 { 'a' } else { 'b' }
    };
    let text: String = (0..MAX_ARGS - 100).map(|_| letter()).collect();
    let args = json!({"text": text});
    for pattern in ["[ab]*a[ab]{200}c", "[ab]*a[ab]{3000}c", "(?:[ab]*a[ab]{100}){8}c"] {
        let (_, failed) = tell(&format!("args.text.matches('{pattern}')"), &args);
        assert!(failed.is_some_and(|why| why.contains("too many steps")), "{pattern}");
    }
    // What is looked for in practice is told over all of it.
    for pattern in ["^[ab]+$", "[.]example[.]com$", "(\\\\w+\\\\s?)*c$"] {
        let (_, failed) = tell(&format!("args.text.matches('{pattern}')"), &args);
        assert_eq!(failed, None, "{pattern}");
    }
}

#[test]
fn patterns_know_where_words_end_in_every_language() {
    for (text, holds) in
        [("caf\u{e9} \u{fc}ber alles", true), ("caf\u{e9}\u{fc}ber alles", false), ("uber uber", false)]
    {
        let args = json!({"text": text});
        assert_eq!(tell("args.text.matches('\\\\b\u{fc}ber\\\\b')", &args), (holds, None), "{text}");
    }
    let args = json!({"text": "\u{fc}ber ".repeat(MAX_ARGS / 8)});
    let (_, failed) = tell("args.text.matches('\\\\b[a-z]{30}\\\\b')", &args);
    assert!(failed.is_some_and(|why| why.contains("too many steps")));
}

#[test]
fn the_patterns_of_one_expression_are_small_together() {
    let one = "args.to.matches('[ab]*a[ab]{3000}c')";
    assert!(Rules::compile(vec![when(Effect::Deny, one)]).is_ok());
    let errors = Rules::compile(vec![when(Effect::Deny, &vec![one; 20].join(" || "))]).unwrap_err();
    assert!(errors[0].msg.contains("too large together"), "{}", errors[0].msg);
}

proptest! {
    #[test]
    fn a_pattern_finds_what_it_says(text in "[ab \u{e9}]{0,12}") {
        for pattern in ["a", "^a", "b$", "^(a|b)+$", "a.b", "", "^$", "\u{e9}+a"] {
            let found = regex::Regex::new(pattern).unwrap().is_match(&text);
            let args = json!({"text": text});
            prop_assert_eq!(tell(&format!("args.text.matches('{pattern}')"), &args), (found, None));
        }
    }
}

#[test]
fn a_function_that_is_not_there_is_an_error_and_none_that_never_can_tell() {
    for (expression, missing) in [
        ("args.cents.biger(5)", "x.biger(...)"),
        ("args.path.startWith('/tmp')", "x.startWith(...)"),
        ("startsWith(args.path, '/tmp')", "startsWith(...)"),
        ("length(args.path) > 3", "length(...)"),
        ("tool == 'x' || args.rows.all(row, row.to.endWith('.nz'))", "x.endWith(...)"),
        ("args.rows.all(row)", "x.all(...)"),
    ] {
        let errors = Rules::compile(vec![when(Effect::Deny, expression)]).unwrap_err();
        assert_eq!(errors[0].msg, format!("there is no function {missing}"), "{expression}");
    }
    for expression in [
        "size(args.a) > 1 && args.a.size() > 1",
        "args.a.contains('x') || args.a.startsWith('x') || args.a.endsWith('x') || args.a.matches('x')",
        "int(args.a) > 1 || uint(args.a) > 1u || double(args.a) > 1.0 || string(args.a) == '' || bytes(args.a) == b''",
        "type(args.a) == int && has(args.b) && dyn(args.a) == 1 && bool(args.a)",
        "-args.a < 1 && !(args.a in [1, 2]) && args.a[0] % 2 == 1 && (args.a ? true : false)",
        "args.a.exists_one(x, x == 1) && args.a.map(x, x).size() == 1 && args.a.filter(x, x > 1) == []",
    ] {
        assert!(Rules::compile(vec![when(Effect::Deny, expression)]).is_ok(), "{expression}");
    }
}
