//! Structured questions: what `ask_user_question` may ask (1 to 4 questions, 2 to 4 options) and what answers them.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::error::{FieldError, LocSegment, NOWHERE};
use super::{FieldErrors, JsonObject};

/// The type of interrupts that carry questions.
pub const USER_INPUT: &str = "user_input";

const QUESTIONS: std::ops::RangeInclusive<usize> = 1..=4;
const OPTIONS: std::ops::RangeInclusive<usize> = 2..=4;
/// The most labels of one answer: those of all options, and what a client lets people write besides.
const MOST_LABELS: usize = 100;

/// One question as a client shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The full text; also the key of its answer.
    pub question: String,
    /// A short label.
    pub header: String,
    /// Whether several options may be chosen.
    pub multi_select: bool,
    /// The options in order.
    pub options: Vec<QuestionOption>,
}

/// One option of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionOption {
    /// What a person chooses by.
    pub label: String,
    /// What it means.
    pub description: String,
    /// A preview for a monospace box.
    pub markdown: Option<String>,
}

/// Reads `{"questions": [...]}`; a member `preview` of an option is the same as `markdown`.
///
/// # Errors
/// Every place that is wrong, for the model to mend.
pub fn read(arguments: &Value) -> Result<Vec<Question>, Vec<FieldError>> {
    let Value::Object(members) = arguments else {
        return Err(vec![FieldError::wrong_type(NOWHERE, "an object with questions", arguments)]);
    };
    let mut reader = QuestionReader::default();
    reader.only(members, &["questions", "type"]);
    let list = reader.list(members, "questions", &QUESTIONS, "questions");
    let questions: Vec<Question> = list
        .iter()
        .enumerate()
        .filter_map(|(index, value)| reader.at(&["questions".into(), index.into()], |inner| inner.question(value)))
        .collect();
    for (index, question) in questions.iter().enumerate() {
        if questions.iter().take(index).any(|earlier| earlier.question == question.question) {
            reader.errors.push(|| {
                FieldError::new(
                    [LocSegment::from("questions"), index.into(), "question".into()],
                    "duplicate",
                    "the same question is asked twice; an answer could not tell them apart",
                )
            });
        }
    }
    if reader.errors.is_empty() { Ok(questions) } else { Err(reader.errors.into_vec(NOWHERE)) }
}

/// The interrupt payload for `questions`.
pub fn payload(questions: &[Question]) -> Value {
    let questions: Vec<Value> = questions
        .iter()
        .map(|question| {
            let options: Vec<Value> = question
                .options
                .iter()
                .map(|option| {
                    let mut shown = json!({"label": option.label, "description": option.description});
                    if let (Some(markdown), Value::Object(members)) = (&option.markdown, &mut shown) {
                        members.insert("markdown".to_owned(), Value::from(markdown.as_str()));
                    }
                    shown
                })
                .collect();
            json!({
                "question": question.question,
                "header": question.header,
                "multiSelect": question.multi_select,
                "options": options,
            })
        })
        .collect();
    json!({"type": USER_INPUT, "questions": questions})
}

/// Checks `{"answers": {question: label | [labels] | free text}}`: every question answered, no other, a list only
/// where several may be chosen.
pub fn check_answer(questions: &[Question], value: &Value) -> Vec<FieldError> {
    let Value::Object(members) = value else {
        return vec![FieldError::wrong_type(NOWHERE, "an object such as {\"answers\": {question: answer}}", value)];
    };
    let mut reader = QuestionReader::default();
    reader.only(members, &["answers"]);
    match members.get("answers") {
        Some(Value::Object(answers)) => reader.at(&["answers".into()], |inner| {
            let known: Vec<&str> = questions.iter().map(|question| question.question.as_str()).collect();
            inner.only(answers, &known);
            for question in questions {
                inner.answer(question, answers.get(&question.question));
            }
        }),
        Some(other) => {
            reader.errors.push(|| FieldError::wrong_type(["answers"], "an object of question and answer", other));
        }
        None => reader.errors.push(|| FieldError::new(["answers"], "missing", "answers are missing")),
    }
    reader.errors.into_vec(NOWHERE)
}

/// The JSON Schema of what [`check_answer`] takes.
pub fn response_schema(questions: &[Question]) -> Value {
    let mut properties = JsonObject::new();
    for question in questions {
        let labels: Vec<&str> = question.options.iter().map(|option| option.label.as_str()).collect();
        let one = json!({"type": "string", "minLength": 1, "examples": labels});
        let answer = if question.multi_select {
            json!({"anyOf": [one, {"type": "array", "minItems": 1, "maxItems": MOST_LABELS, "uniqueItems": true, "items": one}]})
        } else {
            one
        };
        properties.insert(question.question.clone(), answer);
    }
    let required: Vec<&str> = questions.iter().map(|question| question.question.as_str()).collect();
    json!({
        "type": "object", "required": ["answers"], "additionalProperties": false,
        "properties": {"answers": {
            "type": "object", "required": required, "additionalProperties": false, "properties": properties,
        }},
    })
}

/// Collects errors with the place that is being read.
#[derive(Default)]
struct QuestionReader {
    place: Vec<LocSegment>,
    errors: FieldErrors,
}

impl QuestionReader {
    fn at<T>(&mut self, place: &[LocSegment], read: impl FnOnce(&mut Self) -> T) -> T {
        let depth = self.place.len();
        self.place.extend_from_slice(place);
        let result = read(self);
        self.place.truncate(depth);
        result
    }

    fn fail(&mut self, member: &str, kind: &str, msg: impl Into<String>) {
        let place = &self.place;
        self.errors.push(|| FieldError::new(place.iter().cloned().chain([LocSegment::from(member)]), kind, msg));
    }

    fn only(&mut self, members: &JsonObject, known: &[&str]) {
        let unknown = format!("unknown member; known here: {}", known.join(", "));
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            self.fail(name, "unknown_member", unknown.as_str());
        }
    }

    fn list<'a>(
        &mut self,
        members: &'a JsonObject,
        name: &str,
        bounds: &std::ops::RangeInclusive<usize>,
        what: &str,
    ) -> &'a [Value] {
        match members.get(name) {
            Some(Value::Array(items)) => {
                if !bounds.contains(&items.len()) {
                    let (low, high) = (bounds.start(), bounds.end());
                    self.fail(name, "wrong_length", format!("must hold {low} to {high} {what}, got {}", items.len()));
                }
                items
            }
            Some(_) => {
                self.fail(name, "wrong_type", format!("must be an array of {what}"));
                &[]
            }
            None => {
                self.fail(name, "missing", "is missing");
                &[]
            }
        }
    }

    fn text(&mut self, members: &JsonObject, name: &str) -> String {
        match members.get(name) {
            Some(Value::String(text)) if !text.trim().is_empty() => return text.clone(),
            Some(Value::String(_)) => self.fail(name, "empty", "must not be empty"),
            Some(_) => self.fail(name, "wrong_type", "must be a string"),
            None => self.fail(name, "missing", "is missing"),
        }
        String::new()
    }

    fn question(&mut self, value: &Value) -> Option<Question> {
        let Value::Object(members) = value else {
            let place = &self.place;
            self.errors.push(|| FieldError::new(place.clone(), "wrong_type", "must be an object"));
            return None;
        };
        self.only(members, &["question", "header", "multiSelect", "options"]);
        let multi_select = match members.get("multiSelect") {
            None => false,
            Some(Value::Bool(multi_select)) => *multi_select,
            Some(_) => {
                self.fail("multiSelect", "wrong_type", "must be a boolean");
                false
            }
        };
        let list = self.list(members, "options", &OPTIONS, "options");
        let options: Vec<QuestionOption> = list
            .iter()
            .enumerate()
            .filter_map(|(index, value)| self.at(&["options".into(), index.into()], |inner| inner.option(value)))
            .collect();
        for (index, option) in options.iter().enumerate() {
            if options.iter().take(index).any(|earlier| earlier.label == option.label) {
                self.at(&["options".into(), index.into()], |inner| {
                    inner.fail("label", "duplicate", "two options have the same label");
                });
            }
        }
        Some(Question {
            question: self.text(members, "question"),
            header: self.text(members, "header"),
            multi_select,
            options,
        })
    }

    fn option(&mut self, value: &Value) -> Option<QuestionOption> {
        let Value::Object(members) = value else {
            let (place, msg) = (&self.place, "must be an object with label and description");
            self.errors.push(|| FieldError::new(place.clone(), "wrong_type", msg));
            return None;
        };
        self.only(members, &["label", "description", "markdown", "preview"]);
        let markdown = match members.get("markdown").or_else(|| members.get("preview")) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                self.fail("markdown", "wrong_type", "must be a string or null");
                None
            }
        };
        Some(QuestionOption {
            label: self.text(members, "label"),
            description: self.text(members, "description"),
            markdown,
        })
    }

    fn answer(&mut self, question: &Question, answer: Option<&Value>) {
        let name = question.question.as_str();
        match answer {
            None => self.fail(name, "missing", "this question is not answered"),
            Some(Value::String(text)) if !text.is_empty() => {}
            Some(Value::String(_)) => self.fail(name, "empty", "an answer must not be empty"),
            Some(Value::Array(labels)) if question.multi_select => {
                if labels.is_empty() {
                    self.fail(name, "empty", "choose at least one");
                }
                if labels.len() > MOST_LABELS {
                    self.fail(name, "too_long", format!("must hold at most {MOST_LABELS} labels"));
                    return;
                }
                let mut chosen = HashSet::new();
                for label in labels {
                    match label.as_str().filter(|label| !label.is_empty()) {
                        None => self.fail(name, "wrong_type", "every chosen label must be a string that is not empty"),
                        Some(label) if !chosen.insert(label) => self.fail(name, "duplicate", "a label is chosen twice"),
                        Some(_) => {}
                    }
                }
            }
            Some(Value::Array(_)) => self.fail(name, "wrong_type", "only one option may be chosen here"),
            Some(_) => self.fail(name, "wrong_type", "must be a label or free text"),
        }
    }
}

#[cfg(test)]
mod tests;
