// Renders /openapi.json. Text goes in as text, never as markup; nothing is loaded from elsewhere.
"use strict";

const METHODS = ["get", "post", "put", "delete"];
const $ = (id) => document.getElementById(id);

function make(tag, options = {}, ...children) {
  const { classes, ...rest } = options;
  const element = Object.assign(document.createElement(tag), rest);
  if (classes) element.className = classes;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// `code` and paragraphs are all the markup that descriptions use.
function prose(text) {
  const paragraphs = (text || "").split(/\n\n+/).filter(Boolean);
  return paragraphs.map((paragraph) =>
    make("p", {}, ...paragraph.split(/(`[^`]+`)/).map((part) =>
      part.startsWith("`") && part.length > 2 ? make("code", { textContent: part.slice(1, -1) }) : part)));
}

function resolve(root, node) {
  if (!node || !node.$ref) return node || {};
  const path = node.$ref.split("/").slice(1);
  return path.reduce((at, part) => (at || {})[part.replaceAll("~1", "/").replaceAll("~0", "~")], root) || {};
}

function typeOf(root, schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  const forms = schema.oneOf || schema.anyOf;
  if (forms) return forms.map((form) => typeOf(root, form)).join(" | ");
  if (schema.allOf) return "object";
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const kinds = [].concat(schema.type || "any");
  return kinds
    .map((kind) => (kind === "array" ? `[${typeOf(root, schema.items || {})}]` : schema.format && kind === "string" ? schema.format : kind))
    .join(" | ");
}

// The members of an object schema, through references, unions and compositions.
function members(root, schema, seen) {
  const name = schema.$ref;
  if (name && seen.includes(name)) return [];
  const inside = name ? [...seen, name] : seen;
  const target = resolve(root, schema);
  const parts = [...(target.allOf || []), ...(target.oneOf || []), ...(target.anyOf || [])];
  const own = Object.entries(target.properties || {}).filter(([, value]) => value !== false).map(([key, value]) => ({
    key, value, required: (target.required || []).includes(key), seen: inside,
  }));
  const deeper = parts.concat(target.items || []).flatMap((part) => members(root, part, inside));
  return own.concat(deeper);
}

function schemaTree(root, schema, seen = [], depth = 0) {
  const rows = depth > 5 ? [] : members(root, schema, seen);
  if (!rows.length) return null;
  return make("ul", { classes: "schema" }, ...rows.map((row) =>
    make("li", {},
      make("code", { textContent: row.key }), " ",
      make("span", { classes: "type", textContent: typeOf(root, row.value) + (row.required ? ", required" : "") }),
      " ", ...prose(row.value.description || resolve(root, row.value).description).slice(0, 1).flatMap((p) => [...p.childNodes]),
      schemaTree(root, row.value, row.seen, depth + 1))));
}

function exampleOf(root, content) {
  if (content.example !== undefined) return content.example;
  const named = Object.values(content.examples || {})[0];
  if (named) return resolve(root, named).value;
  const forms = [content.schema || {}];
  while (forms.length) {
    const schema = resolve(root, forms.shift());
    if (schema.examples && schema.examples.length) return schema.examples[0];
    forms.push(...(schema.oneOf || []), ...(schema.anyOf || []), ...(schema.allOf || []));
  }
  return undefined;
}

function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function contentBlock(root, type, content) {
  const schema = content.schema || {};
  const example = exampleOf(root, content);
  return make("div", {},
    make("p", { classes: "faint" }, make("code", { textContent: type }), " ", typeOf(root, schema)),
    schemaTree(root, schema),
    example === undefined ? null : make("pre", { textContent: pretty(example) }));
}

function parameters(root, operation, inputs) {
  const list = (operation.parameters || []).map((parameter) => resolve(root, parameter));
  if (!list.length) return [];
  const rows = list.map((parameter) => {
    const input = make("input", { ariaLabel: parameter.name, placeholder: typeOf(root, parameter.schema || {}) });
    inputs.push({ parameter, input });
    return make("tr", {},
      make("td", {}, make("code", { textContent: parameter.name }), parameter.required ? make("em", { textContent: " *" }) : "",
        make("div", { classes: "faint", textContent: parameter.in })),
      make("td", {}, ...prose(parameter.description)), make("td", {}, input));
  });
  return [make("h4", { textContent: "Parameters" }), make("table", {}, ...rows)];
}

function responses(root, operation) {
  const rows = Object.entries(operation.responses || {}).map(([status, response]) => {
    const answer = resolve(root, response);
    const headers = Object.entries(answer.headers || {}).map(([name, header]) =>
      make("p", { classes: "faint" }, make("code", { textContent: name }), ": ", header.description || ""));
    const content = Object.entries(answer.content || {}).map(([type, body]) => contentBlock(root, type, body));
    const more = content.length ? make("details", {}, make("summary", { textContent: "body" }), ...content) : null;
    return make("tr", {},
      make("td", {}, make("span", { classes: `status ${status < "400" ? "good" : "bad"}`, textContent: status })),
      make("td", {}, ...prose(answer.description), ...headers, more));
  });
  return [make("h4", { textContent: "Responses" }), make("table", {}, ...rows)];
}

function requestBody(root, operation) {
  if (!operation.requestBody) return { parts: [], editor: null };
  const body = resolve(root, operation.requestBody);
  const [type, content] = Object.entries(body.content || {})[0] || ["application/json", {}];
  const example = exampleOf(root, content);
  const editor = make("textarea", { ariaLabel: "Body", spellcheck: false, value: example === undefined ? "" : pretty(example) });
  return { parts: [make("h4", { textContent: body.required ? "Body" : "Body (optional)" }), contentBlock(root, type, content), editor], editor };
}

function request(method, template, inputs, editor) {
  let path = template;
  const query = new URLSearchParams();
  const headers = {};
  for (const { parameter, input } of inputs) {
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value && parameter.in === "query") query.append(parameter.name, input.value);
    else if (input.value && parameter.in === "header") headers[parameter.name] = input.value;
  }
  const key = $("key").value;
  if (key) headers.Authorization = `Bearer ${key}`;
  const body = editor && editor.value.trim() ? editor.value : undefined;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const url = query.size ? `${path}?${query}` : path;
  return { url, options: { method: method.toUpperCase(), headers, body } };
}

async function show(response, output) {
  output.textContent = `${response.status} ${response.statusText}\n\n`;
  const decoder = new TextDecoder();
  let text = "";
  // Event streams never end: show what there is as it comes.
  for (let reader = response.body && response.body.getReader(); reader; ) {
    const { value, done } = await reader.read();
    if (done) break;
    const piece = decoder.decode(value, { stream: true });
    text += piece;
    output.textContent += piece;
  }
  if (/json/.test(response.headers.get("content-type") || "") && text) {
    output.textContent = `${response.status} ${response.statusText}\n\n${JSON.stringify(JSON.parse(text), null, 2)}`;
  }
}

function tryIt(method, path, inputs, editor) {
  const output = make("pre", { hidden: true });
  const button = make("button", { type: "button", textContent: "Send" });
  let running = null;
  button.addEventListener("click", async () => {
    if (running) return running.abort();
    running = new AbortController();
    button.textContent = "Stop";
    output.hidden = false;
    output.textContent = "...";
    const { url, options } = request(method, path, inputs, editor);
    try {
      await show(await fetch(url, { ...options, signal: running.signal }), output);
    } catch (error) {
      output.textContent += `\n${error}`;
    } finally {
      running = null;
      button.textContent = "Send";
    }
  });
  return [make("h4", { textContent: "Try it" }), button, output];
}

function operationBlock(root, method, path, operation) {
  const inputs = [];
  const { parts, editor } = requestBody(root, operation);
  const block = make("details", { classes: "operation", id: operation.operationId || `${method}-${path}` },
    make("summary", {},
      make("span", { classes: `method ${method}`, textContent: method }),
      make("h3", { classes: "path", textContent: path }),
      make("span", { classes: "title", textContent: operation.summary || "" })),
    make("div", {},
      ...prose(operation.description), ...parameters(root, operation, inputs), ...parts,
      ...responses(root, operation), ...tryIt(method, path, inputs, editor)));
  return block;
}

function render(root) {
  document.title = `${root.info.title} API`;
  $("version").textContent = root.info.version;
  const groups = new Map((root.tags || []).map((tag) => [tag.name, []]));
  for (const [path, item] of Object.entries(root.paths)) {
    for (const method of METHODS.filter((method) => item[method])) {
      const operation = item[method];
      const tag = (operation.tags || ["other"])[0];
      groups.set(tag, [...(groups.get(tag) || []), { method, path, operation }]);
    }
  }
  $("contents").replaceChildren();
  $("operations").replaceChildren(...prose(root.info.description));
  for (const [tag, entries] of groups) {
    $("contents").append(make("strong", { textContent: tag }));
    $("operations").append(make("h2", { textContent: tag }));
    for (const { method, path, operation } of entries) {
      const block = operationBlock(root, method, path, operation);
      const link = make("a", { href: `#${block.id}`, textContent: operation.summary || path, title: `${method.toUpperCase()} ${path}` });
      link.addEventListener("click", () => { block.open = true; });
      $("contents").append(link);
      $("operations").append(block);
    }
  }
  const wanted = location.hash && document.getElementById(location.hash.slice(1));
  if (wanted) { wanted.open = true; wanted.scrollIntoView(); }
}

async function load() {
  const key = $("key").value;
  const response = await fetch("/openapi.json", { headers: key ? { Authorization: `Bearer ${key}` } : {} });
  if (!response.ok) throw new Error(`/openapi.json: ${response.status}`);
  render(await response.json());
}

function start() {
  load().catch((error) => {
    $("operations").replaceChildren(make("p", { textContent: `${error.message}. With an API key, enter it above.` }));
  });
}

$("key").addEventListener("change", start);
start();
