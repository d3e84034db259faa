// Values of agents as a person may trust to see them: characters that hide or turn text around are shown by name.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { isObject, RawNumber, write, type Json, type JsonObject } from "./json";

// Controls, direction marks, whatever is drawn as nothing, private use, lone surrogates, and what Unicode does not know
// yet: by its properties, so that nothing is forgotten. `python/hitl/cli/text.py` has the same rule for terminals.
const ODD = /(?![\n\t])[\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800]/gu;

/** Besides, spaces that look like others, or like nothing: in a value they count. */
const ODD_OR_SPACE = /(?![\n\t ])[\p{C}\p{Default_Ignorable_Code_Point}\p{Z}\u2800]/gu;

/** A value to the letter: its white space is kept, and can be seen where it is at an end or is no ordinary one. */
export function Exact({ text }: { text: string }) {
  const start = text.length - text.trimStart().length;
  const end = Math.max(start, text.trimEnd().length);
  return (
    <span class="exact">
      <Edge text={text.slice(0, start)} /><Plain text={text.slice(start, end)} odd={ODD_OR_SPACE} /><Edge text={text.slice(end)} />
    </span>
  );
}

function Edge({ text }: { text: string }) {
  return text === "" ? null : <span class="edge" title="White space"><Plain text={text} odd={ODD_OR_SPACE} /></span>;
}

/** A text as it is, with its invisible characters made visible. */
export function Plain({ text, odd = ODD }: { text: string; odd?: RegExp }) {
  const parts = split(text, odd);
  if (parts.length === 1 && typeof parts[0] === "string") return <>{text}</>;
  return <>{parts.map((part) => (typeof part === "string" ? part : <span class="odd" title="A character that cannot be seen">{marked(part)}</span>))}</>;
}

/** The same one many times in a row is one mark: thousands of them would keep the page busy, and say no more. */
interface Mark {
  code: number;
  count: number;
}

const marked = ({ code, count }: Mark): string => `${name(code)}${count > 1 ? ` × ${count}` : ""}`;

function split(text: string, odd: RegExp): (string | Mark)[] {
  const out: (string | Mark)[] = [];
  let from = 0;
  for (const found of text.matchAll(odd)) {
    const code = found[0].codePointAt(0) ?? 0;
    // In prose a joiner between two emoji is how families are written, and a heart is a heart in colour. In a value it is
    // a character like any other: two names that look alike are two.
    const before = text.slice(Math.max(0, found.index - 3), found.index);
    const after = text.slice(found.index + 1, found.index + 3);
    if (odd === ODD && code === 0x200d && /\p{Extended_Pictographic}\ufe0f?$/u.test(before) && /^\p{Extended_Pictographic}/u.test(after)) continue;
    if (odd === ODD && code === 0xfe0f && /\p{Extended_Pictographic}$/u.test(before)) continue;
    const last = out.at(-1);
    if (found.index === from && typeof last === "object" && last.code === code) last.count++;
    else {
      if (found.index > from) out.push(text.slice(from, found.index));
      out.push({ code, count: 1 });
    }
    from = found.index + found[0].length;
  }
  if (from < text.length || out.length === 0) out.push(text.slice(from));
  return out;
}

/** The same as a text, for places that take no elements. */
export function named(text: string): string {
  return split(text, ODD).map((part) => (typeof part === "string" ? part : `[${marked(part)}]`)).join("");
}

/** Of what is no name but only says so, each part would be an element of the page. */
const LONGEST_NAME = 200;

/** A name of code: where it does not fit, it is broken behind one of its marks before it is broken in a word. */
export function Name({ text }: { text: string }) {
  if (text.length > LONGEST_NAME) return <Plain text={text} />;
  return <>{text.split(/(?<=[_.:/-])(?=[^_.:/-])/).map((part, index) => <>{index > 0 && <wbr />}<Plain text={part} /></>)}</>;
}

function name(code: number): string {
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

const LONG = 1_200;

/** A text in full, or its beginning and how much more there is. */
export function Text({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  if (text.length <= LONG || whole) return <Exact text={text} />;
  return (
    <>
      <Exact text={text.slice(0, LONG)} />…{" "}
      <button type="button" class="link" onClick={() => setWhole(true)}>
        Show all {text.length.toLocaleString()} characters
      </button>
    </>
  );
}

const MOST_ROWS = 60;

/** A value: objects and lists as tables, texts as they are, everything else as JSON. */
export function Value({ value, depth = 0 }: { value: Json; depth?: number }) {
  if (typeof value === "string") {
    if (value === "") return <span class="muted">empty text</span>;
    return <span class={value.includes("\n") ? "text block" : "text"} dir="auto"><Text text={value} /></span>;
  }
  if (value === null || typeof value === "boolean" || typeof value === "number" || value instanceof RawNumber) {
    return <span class="literal">{value === null ? "null" : String(value)}</span>;
  }
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  if (size === 0) return <span class="muted">{Array.isArray(value) ? "empty list" : "empty object"}</span>;
  if (depth >= 6) return <Text text={write(value)} />;
  if (Array.isArray(value)) {
    if (value.every((one) => typeof one !== "object" || one === null)) {
      return <ul class="values plain"><More items={value} show={(one) => <li><Value value={one} depth={depth + 1} /></li>} /></ul>;
    }
    return <ol class="values"><More items={value} show={(one) => <li><Value value={one} depth={depth + 1} /></li>} /></ol>;
  }
  return <Members value={value} depth={depth} />;
}

function More({ items, show }: { items: Json[]; show: (item: Json) => preact.JSX.Element }) {
  const [all, setAll] = useState(items.length <= MOST_ROWS);
  return (
    <>
      {(all ? items : items.slice(0, MOST_ROWS)).map(show)}
      {!all && <li><button type="button" class="link" onClick={() => setAll(true)}>Show all {items.length.toLocaleString()}</button></li>}
    </>
  );
}

/** The members of an object, one a row. */
export function Members({ value, depth = 0, without = [] }: { value: JsonObject; depth?: number; without?: string[] }) {
  const members = Object.entries(value).filter(([name]) => !without.includes(name));
  const [all, setAll] = useState(false);
  const isLong = members.length > MOST_ROWS && !all;
  if (members.length === 0) return <p class="muted">Nothing more.</p>;
  return (
    <table class={depth === 0 ? "members" : "members inner"}>
      <tbody>
        {(isLong ? members.slice(0, MOST_ROWS) : members).map(([name, one]) => (
          <tr key={name}>
            <th scope="row"><Exact text={name} /></th>
            <td><Value value={one} depth={depth + 1} /></td>
          </tr>
        ))}
        {isLong && <tr><td colSpan={2}><button type="button" class="link" onClick={() => setAll(true)}>Show all {members.length.toLocaleString()}</button></td></tr>}
      </tbody>
    </table>
  );
}

/** More for whoever asks: drawn once it is opened. */
export function Folded({ title, children }: { title: string; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  return <details onToggle={(event) => setOpen(event.currentTarget.open)}><summary>{title}</summary>{isOpen && children}</details>;
}

/** JSON as it is. */
export function Source({ value, label }: { value: Json; label: string }) {
  const text = write(value, 2);
  return (
    <pre class="source" tabIndex={0} aria-label={label}>
      <code>{isObject(value) || Array.isArray(value) ? <Plain text={text} odd={ODD_OR_SPACE} /> : text}</code>
    </pre>
  );
}
