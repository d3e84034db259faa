//! `refusals.txt`: what is refused, and how, for every documented operation.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::super::support::{Client, HOST};
use super::{compare, read};
use crate::engine::settings::Settings;
use crate::server::settings::HttpSettings;

const FILE: &str = "refusals.txt";
const ARROW: &str = " => ";
/// More errors than these are counted, and the last one is told.
const TOLD: usize = 12;
/// Of a place that is deeper than this the outermost steps are told, and how many there are.
const DEEP: usize = 12;

/// What is sent, as a line of the file says it.
struct Case<'a> {
    method: Method,
    path: String,
    header: Option<(&'a str, String)>,
    body: String,
}

/// The ids of what there is.
struct There {
    /// A session that takes messages.
    idle: String,
    /// One that asks.
    asking: String,
    asked: String,
}

impl There {
    fn path(&self, operation: &str) -> String {
        let (_, template) = operation.split_once(' ').unwrap();
        let session = if template.ends_with("/resume") { &self.asking } else { &self.idle };
        template
            .replace("{session_id}", session.strip_prefix("/sessions/").unwrap())
            .replace("{interrupt_id}", &self.asked)
            .replace("{grant_id}", &self.asked)
            .replace("{key_id}", &self.asked)
            .replace("{notice_id}", "x")
    }

    fn case<'a>(&self, operation: &str, sent: &'a str) -> Case<'a> {
        let method = operation.split(' ').next().unwrap().parse().unwrap();
        let (path, mut header) = (self.path(operation), None);
        let (path, body) = match sent.chars().next() {
            Some('?') => (format!("{path}{sent}"), "-"),
            Some('/') => {
                let (path, body) = sent.split_once(" | ").unwrap_or((sent, "-"));
                (path.to_owned(), body)
            }
            Some('@') => {
                let (named, body) = sent.split_once(" | ").unwrap_or((sent, "-"));
                let (name, value) = named.trim_start_matches('@').split_once(": ").unwrap();
                header = Some((name, unfolded(value)));
                (path, body)
            }
            _ => (path, sent),
        };
        let body = if body == "-" { String::new() } else { unfolded(body).replace("$asked", &self.asked) };
        Case { method, path: unfolded(&path), header, body }
    }
}

/// `«x*3»` as xxx.
fn unfolded(text: &str) -> String {
    let Some((before, rest)) = text.split_once('«') else { return text.to_owned() };
    let (folded, after) = rest.split_once('»').unwrap();
    let (part, times) = folded.rsplit_once('*').unwrap();
    format!("{before}{}{}", part.repeat(times.parse().unwrap()), unfolded(after))
}

/// What came of it, as a line of the file says it.
async fn answer(client: &Client, case: Case<'_>) -> String {
    let mut request = Request::builder().method(case.method).uri(case.path).header("host", HOST);
    let is_typed = case.header.as_ref().is_some_and(|(name, _)| *name == "Content-Type");
    if !case.body.is_empty() && !is_typed {
        request = request.header("content-type", "application/json");
    }
    if let Some((name, value)) = case.header {
        request = request.header(name, value.as_bytes());
    }
    let answered = client.router().oneshot(request.body(Body::from(case.body)).unwrap()).await.unwrap();
    let status = answered.status().as_u16();
    if answered.status().is_success() {
        return status.to_string();
    }
    let problem: Value = serde_json::from_slice(&answered.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let mut said = format!("{status} {}", problem["code"].as_str().unwrap());
    let errors: Vec<String> = problem["errors"].as_array().into_iter().flatten().map(place).collect();
    match errors.as_slice() {
        [] => {}
        [first, .., last] if errors.len() > TOLD => {
            said.push_str(&format!(" {first}; ({} in all); {last}", errors.len()))
        }
        all => said.push_str(&format!(" {}", all.join("; "))),
    }
    said
}

fn place(error: &Value) -> String {
    let word = |place: &Value| place.as_str().map_or_else(|| place.to_string(), str::to_owned);
    let loc: Vec<String> = error["loc"].as_array().unwrap().iter().map(word).collect();
    let path = match loc.get(..DEEP) {
        Some(outermost) => format!("{}/...({} deep)", outermost.join("/"), loc.len()),
        None => loc.join("/"),
    };
    format!("{path} {}", error["type"].as_str().unwrap())
}

async fn client() -> Client {
    let settings = Settings { allow_custom_ids: true, allow_import: true, ..Settings::default() };
    Client::with(settings, HttpSettings::default()).await
}

#[tokio::test]
async fn refusals_are_what_they_were() {
    let client = client().await;
    let (asking, ids) = client.asking(&["delete_file!"]).await;
    let there = There { idle: client.session().await, asking, asked: ids[0].clone() };
    let mut operation = String::new();
    let mut text = String::new();
    for line in read(FILE).lines() {
        if let Some(name) = line.strip_prefix("## ") {
            operation = name.to_owned();
        }
        if line.is_empty() || line.starts_with('#') {
            text.push_str(line);
        } else {
            let sent = line.split(ARROW).next().unwrap();
            let answer = answer(&client, there.case(&operation, sent)).await;
            text.push_str(&format!("{sent}{ARROW}{answer}"));
            if answer == "202" {
                client.until(&there.idle, "idle").await;
            }
        }
        text.push('\n');
    }
    compare(FILE, &text);
}

/// The names that a request of this operation can be wrong in: its parameters, and the members of its body and of what is
/// in it.
fn names(document: &Value, operation: &Value) -> BTreeSet<String> {
    fn members(document: &Value, schema: &Value, known: &mut BTreeSet<String>, names: &mut BTreeSet<String>) {
        if let Some(reference) = schema["$ref"].as_str()
            && known.insert(reference.to_owned())
        {
            members(document, document.pointer(reference.trim_start_matches('#')).unwrap(), known, names);
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            names.insert(name.clone());
            members(document, schema, known, names);
        }
        for word in ["oneOf", "allOf", "anyOf"] {
            schema[word].as_array().into_iter().flatten().for_each(|part| members(document, part, known, names));
        }
        if schema["items"].is_object() {
            members(document, &schema["items"], known, names);
        }
    }
    let mut names = BTreeSet::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        // No `traceparent` is refused: one that is none is not heeded.
        if parameter["in"] != "path" && parameter["name"] != "traceparent" {
            names.insert(parameter["name"].as_str().unwrap().to_owned());
        }
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    members(document, body, &mut BTreeSet::new(), &mut names);
    names
}

#[tokio::test]
async fn every_operation_and_each_of_its_parameters_and_members_is_among_the_refusals() {
    let document = client().await.get("/openapi.json").await.json();
    let file = read(FILE);
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    let mut lines = None;
    for line in file.lines() {
        match line.strip_prefix("## ") {
            Some(name) => lines = Some(sections.entry(name).or_default()),
            None => lines.iter_mut().for_each(|lines| lines.push_str(line)),
        }
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            if !responses.contains_key("422") && !path.contains('{') {
                continue;
            }
            let name = format!("{} {path}", method.to_uppercase());
            let section = sections.remove(name.as_str()).unwrap_or_else(|| panic!("{name} has no section"));
            // PUT takes what POST takes, but for the state of a run.
            let names = if name.starts_with("PUT ") { BTreeSet::new() } else { names(&document, operation) };
            for member in names {
                assert!(section.contains(&member), "{name}: nothing is wrong in {member}");
            }
        }
    }
    assert!(sections.is_empty(), "{:?} are no operations that refuse", sections.keys());
}
