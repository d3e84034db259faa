use super::*;

fn check(url: &str, allow_private: bool) -> Result<Url, Error> {
    let webhook = Webhook { url: url.to_owned(), token: None, include_messages: false, events: None };
    webhook.check(allow_private)
}

fn is_refused(url: &str) -> bool {
    matches!(check(url, false), Err(Error::WebhookRefused(_)))
}

#[test]
fn public_addresses_and_names_are_called() {
    for url in [
        "https://example.com/hook?x=1",
        "http://example.com:8080/",
        "http://93.184.216.34/",
        "http://172.15.0.1/",
        "http://172.32.0.1/",
        "http://100.128.0.1/",
        "https://[2606:2800:220:1:248:1893:25c8:1946]/",
        "http://[::ffff:93.184.216.34]/",
        "http://[64:ff9b::5db8:d822]/",
        "http://[2002:5db8:d822::1]/",
        "http://localhost.example.com/",
    ] {
        assert!(check(url, false).is_ok(), "{url}: {:?}", check(url, false));
    }
}

#[test]
fn private_addresses_are_refused_however_they_are_written() {
    for url in [
        "http://127.0.0.1/",
        "http://127.1.2.3:9000/x",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://172.31.255.255/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.64.0.1/",
        "http://192.0.0.8/",
        "http://192.0.2.1/",
        "http://192.88.99.1/",
        "http://168.63.129.16/machine",
        "http://198.18.0.1/",
        "http://198.51.100.1/",
        "http://203.0.113.1/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://localhost/",
        "http://LOCALHOST:3000/",
        "http://localhost./",
        "http://api.localhost/",
        "http://\u{ff4c}ocalhost/",
        "http://\u{ff11}27.0.0.1/",
        "http://user:password@127.0.0.1/",
    ] {
        assert!(is_refused(url), "{url}");
    }
}

#[test]
fn private_ipv6_addresses_are_refused_with_what_is_inside_them() {
    for address in [
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:a9fe:a9fe",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a00:1::",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456:789a::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(is_refused(&format!("http://[{address}]/")), "{address}");
        assert!(is_private(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn a_url_is_found_by_an_index_and_has_a_longest_length() {
    let padded = |length: usize| format!("https://example.com/{}", "x".repeat(length - 20));
    assert!(check(&padded(LONGEST_URL), false).is_ok());
    // Written out it is longer than it was given.
    for url in [padded(LONGEST_URL + 1), format!("https://example.com/{}", "ä".repeat(LONGEST_URL / 6))] {
        assert!(
            matches!(check(&url, true), Err(Error::WebhookRefused(why)) if why.ends_with("at most 2048 are taken"))
        );
    }
}

#[test]
fn other_schemes_and_what_is_no_url_are_refused_even_where_private_is_allowed() {
    for url in ["ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "example.com", "", "http://", "//x"]
    {
        assert!(matches!(check(url, true), Err(Error::WebhookRefused(_))), "{url}");
    }
}

#[test]
fn private_addresses_are_called_where_the_operator_allows_it() {
    for url in ["http://127.0.0.1:9000/", "http://[::1]/", "http://localhost/"] {
        assert!(check(url, true).is_ok(), "{url}");
    }
}

fn told(webhook: &Webhook) -> Vec<&'static str> {
    EventName::FOR_WEBHOOKS.into_iter().filter(|event| webhook.wants(*event)).map(EventName::as_str).collect()
}

fn webhook(url: &str, events: Option<&[&str]>) -> Webhook {
    let events = events.map(|events| events.iter().map(|event| EventName::parse(event).unwrap()).collect());
    Webhook { url: url.to_owned(), token: None, include_messages: false, events }
}

#[test]
fn it_is_told_of_idle_and_error_unless_it_says_otherwise() {
    assert_eq!(told(&webhook("", None)), ["session.idle", "session.error"]);
    assert_eq!(
        told(&webhook("", Some(&["interrupted", "interrupt.created"]))),
        ["interrupt.created", "session.interrupted"]
    );
    assert!(told(&webhook("", Some(&[]))).is_empty());
}

#[test]
fn that_of_a_server_is_told_of_whatever_somebody_has_to_act_on_unless_it_says_otherwise() {
    let url = "https://example.com/hook";
    let all = Webhook::of_server(url, false).unwrap();
    assert_eq!((all.url.as_str(), told(&all).len()), (url, 6));
    assert!(!all.wants(EventName::Session(Status::Running)) && !all.wants(EventName::Session(Status::Interrupted)));
    let some = Webhook::of_server("https://example.com/hook,interrupt.created, error", false).unwrap();
    assert_eq!((some.url.as_str(), told(&some)), (url, vec!["interrupt.created", "session.error"]));
}

#[test]
fn that_of_a_server_is_refused_where_it_is_misspelt() {
    for text in ["", "example.com", "https://example.com/,interrupt.creatd", "https://example.com/,", ",idle"] {
        assert!(matches!(Webhook::of_server(text, false), Err(Error::WebhookRefused(_))), "{text}");
    }
    assert!(Webhook::of_server("http://127.0.0.1/", false).is_err());
    assert!(Webhook::of_server("http://127.0.0.1/", true).is_ok());
}

#[test]
fn an_address_is_told_once_as_the_first_that_wants_it_says() {
    let of_message = Webhook { token: Some("t".to_owned()), ..webhook("a", Some(&["idle"])) };
    let of_session = webhook("a", Some(&["idle", "error"]));
    let of_server = webhook("b", Some(&["idle"]));
    let all = [&of_message, &of_session, &of_server];
    assert_eq!(Webhook::told_of(EventName::Session(Status::Idle), all), [&of_message, &of_server]);
    assert_eq!(Webhook::told_of(EventName::Session(Status::Error), all), [&of_session]);
    assert!(Webhook::told_of(EventName::CREATED, all).is_empty());
}
