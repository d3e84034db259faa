//! Chat messages: what goes into a turn, what comes out, and what a session remembers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use unicode_general_category::{GeneralCategory, get_general_category};
use url::Url;

use super::{JsonObject, size};

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// A person.
    #[default]
    User,
    /// The agent.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One message of a conversation, as docs/http.md has it: everything but `role` is optional.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who said it; `user` where a request leaves it out.
    #[serde(default)]
    pub role: Role,
    /// The text.
    #[serde(default)]
    pub content: Option<String>,
    /// The model's reasoning, where it shows it.
    #[serde(default)]
    pub reasoning: Option<String>,
    /// Reasoning as the provider structures it.
    #[serde(default)]
    pub reasoning_details: Option<Vec<Value>>,
    /// Tool calls that the assistant wants.
    #[serde(default)]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Which call a `tool` message answers.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// The name of the tool or speaker.
    #[serde(default)]
    pub name: Option<String>,
    /// An image, base64.
    #[serde(default)]
    pub base64_image: Option<String>,
    /// Images and other files. Left out where there are none: clients of 0.1.0 know the other nine members only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<Attachment>>,
    /// Parameters of the client's own; never turned into environment variables.
    #[serde(default)]
    pub user_params: Option<JsonObject>,
}

/// An image or another file: its bytes, or where they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// What it is: `image/png`, `application/pdf`.
    pub media_type: String,
    /// What people call it. Stored before the bytes: lists read the beginning of a message alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its bytes, base64; this or `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Where it is, for the model's provider to fetch: hitl never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The longest name of an attachment where it is told or shown beside something else, in characters.
const LONGEST_NAME: usize = 200;

impl Attachment {
    /// What is wrong with it: the member, empty where it is the attachment itself, and what that must be.
    pub fn flaws(&self) -> Vec<(&'static str, &'static str)> {
        let mut flaws = Vec::new();
        if !is_media_type(&self.media_type) {
            flaws.push(("media_type", "must be a media type such as image/png"));
        }
        match (&self.data, &self.url) {
            (Some(data), None) if STANDARD.decode(data).is_err() => {
                flaws.push(("data", "must be base64, of the alphabet with + and /, padded"));
            }
            (None, Some(url)) if !is_web_address(url) => {
                flaws.push(("url", "must be an address that begins with https:// or http://"));
            }
            (Some(_), None) | (None, Some(_)) => {}
            _ => flaws.push(("", "must have either data or url")),
        }
        flaws
    }

    /// Its name and type, as a model and people are told of it: `report.pdf, application/pdf`. On one line.
    pub fn described(&self) -> String {
        match self.name.as_deref() {
            None | Some("") => self.media_type.clone(),
            Some(name) => format!("{}, {}", one_line(&shortened_name(name)), self.media_type),
        }
    }

    /// What the older member of a message has: base64 alone, or a `data:` URL. As clients draw it: the beginning of the
    /// data tells the type, then the URL, where it says an image's.
    fn of_base64_image(image: &str) -> Self {
        let (said, data) = match image.strip_prefix("data:").and_then(|rest| rest.split_once(',')) {
            Some((head, data)) => (head.split(';').next(), data),
            None => (None, image),
        };
        let starts = [("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp")];
        let said = said.filter(|said| said.starts_with("image/") && is_media_type(said));
        let told = starts.iter().find(|(start, _)| data.starts_with(start)).map(|(_, media_type)| *media_type);
        let media_type = told.or(said).unwrap_or("image/png").to_owned();
        Self { media_type, data: Some(data.to_owned()), url: None, name: None }
    }
}

/// Whether a model's provider could fetch it. It gets the text as it is, so nothing stands in it that a reader of addresses
/// would mend: white space, control characters, a scheme without its slashes.
fn is_web_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let is_web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    is_web
        && !rest.starts_with('/')
        && !text.contains(|one: char| one.is_whitespace() || one.is_control() || one == '\\')
        && Url::parse(text).is_ok_and(|url| url.has_host())
}

/// A name, or its beginning and three dots, where it is told or shown beside something else.
pub fn shortened_name(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}...", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// A name is whoever sent the file's to choose: it gets neither a line of its own nor out of the brackets that it is put
/// into, and shows nothing that it is not, as characters that turn the direction of a text would.
fn one_line(name: &str) -> String {
    let harmless = |character: char| match character {
        '[' => '(',
        ']' => ')',
        ' ' => ' ',
        character if is_printable(character) => character,
        _ => ' ',
    };
    name.chars().map(harmless).collect()
}

/// As `str.isprintable` of Python has it.
fn is_printable(character: char) -> bool {
    use GeneralCategory::{
        Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, SpaceSeparator, Surrogate, Unassigned,
    };
    let category = get_general_category(character);
    !matches!(
        category,
        Control | Format | LineSeparator | ParagraphSeparator | PrivateUse | SpaceSeparator | Surrogate | Unassigned
    )
}

/// Whether a text is a media type without parameters, as RFC 6838 writes it: `image/png`.
pub fn is_media_type(text: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.len() <= 127
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    text.split_once('/').is_some_and(|(kind, format)| is_name(kind) && is_name(format))
}

impl ChatMessage {
    /// About how many bytes it has.
    pub fn size(&self) -> usize {
        let texts = [&self.content, &self.reasoning, &self.tool_call_id, &self.name, &self.base64_image];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let details: usize = self.reasoning_details.iter().flatten().map(size::size_of_value).sum();
        let call = |call: &ToolCall| call.id.len() + call.function.name.len() + call.function.arguments.len();
        let calls: usize = self.tool_calls.iter().flatten().map(call).sum();
        let of_file = |file: &Attachment| [&file.data, &file.url].into_iter().flatten().map(String::len).sum::<usize>();
        let files: usize = self.attachments.iter().flatten().map(of_file).sum();
        size_of::<Self>() + texts + details + calls + files + self.user_params.as_ref().map_or(0, size::size_of_members)
    }

    /// What its members are called.
    pub const MEMBERS: [&str; 10] = [
        "role",
        "content",
        "reasoning",
        "reasoning_details",
        "tool_calls",
        "tool_call_id",
        "name",
        "base64_image",
        "attachments",
        "user_params",
    ];

    /// Everything that is attached, the older member first.
    pub fn attached(&self) -> Vec<Attachment> {
        let image = self.base64_image.as_deref().filter(|image| !image.is_empty()).map(Attachment::of_base64_image);
        image.into_iter().chain(self.attachments.iter().flatten().cloned()).collect()
    }

    /// Whether it says nothing, whoever says it.
    pub fn is_empty(&self) -> bool {
        *self == Self { role: self.role, name: self.name.clone(), ..Self::default() }
    }

    /// This message as JSON with its null members left out.
    pub fn without_nulls(&self) -> Value {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => {
                Value::Object(members.into_iter().filter(|(_, value)| !value.is_null()).collect())
            }
            Ok(other) => other,
            Err(_) => Value::Null,
        }
    }
}

/// A message without its null members: most of them are null in most messages, and a state has many messages.
#[derive(Debug, Clone, Copy)]
pub struct Lean<'a>(pub &'a ChatMessage);

impl Serialize for Lean<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        // Every member by name: one that is added to the type is missed here by the compiler.
        let ChatMessage {
            role,
            content,
            reasoning,
            reasoning_details,
            tool_calls,
            tool_call_id,
            name,
            base64_image,
            attachments,
            user_params,
        } = self.0;
        map.serialize_entry("role", role)?;
        entry(&mut map, "content", content.as_ref())?;
        entry(&mut map, "reasoning", reasoning.as_ref())?;
        entry(&mut map, "reasoning_details", reasoning_details.as_ref())?;
        entry(&mut map, "tool_calls", tool_calls.as_ref())?;
        entry(&mut map, "tool_call_id", tool_call_id.as_ref())?;
        entry(&mut map, "name", name.as_ref())?;
        entry(&mut map, "base64_image", base64_image.as_ref())?;
        entry(&mut map, "attachments", attachments.as_ref())?;
        entry(&mut map, "user_params", user_params.as_ref())?;
        map.end()
    }
}

fn entry<M: SerializeMap>(map: &mut M, name: &str, value: Option<&impl Serialize>) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, value),
        None => Ok(()),
    }
}

/// What a session is to remember after a turn, by what it remembered before: a conversation grows at its end, and what is
/// long is not to be said again each time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NextState {
    /// How many messages stay as they are, from the first on.
    pub kept: usize,
    /// What comes after these, in place of what came after them.
    pub messages: Vec<ChatMessage>,
}

impl NextState {
    /// How many messages the session has then.
    pub fn total(&self) -> usize {
        self.kept.saturating_add(self.messages.len())
    }
}

impl From<Vec<ChatMessage>> for NextState {
    fn from(messages: Vec<ChatMessage>) -> Self {
        Self { kept: 0, messages }
    }
}

/// One tool call inside an assistant message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, which the answering `tool` message repeats.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type", default)]
    pub kind: ToolCallKind,
    /// What is called.
    pub function: FunctionCall,
}

/// The kinds of tool calls there are: one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolCallKind {
    /// A function.
    #[default]
    Function,
}

/// A function's name and its arguments as the model wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The tool's name.
    pub name: String,
    /// JSON text, possibly broken.
    pub arguments: String,
}

#[cfg(test)]
mod tests;
