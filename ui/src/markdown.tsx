// Markdown of agents, as elements that are built one by one: what is not listed here stays text. No HTML, no images, and
// links say where they lead.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { Plain } from "./shown";

const LONGEST = 200_000;

export function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => render(text.slice(0, LONGEST).replace(/\r\n?/g, "\n").split("\n"), 0), [text]);
  return (
    <div class="prose" dir="auto">
      {blocks}
      {text.length > LONGEST && <p class="muted">The rest of {text.length.toLocaleString()} characters is left out.</p>}
    </div>
  );
}

const FENCE = /^\s{0,3}(```+|~~~+)\s*([\w+-]*)/;
const HEADING = /^\s{0,3}(#{1,6})\s/;
const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const QUOTE = /^\s{0,3}>\s?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+([^]*)$/;
const ROW = /^\s*\|.*\|\s*$/;
// None of these, nor what looks within a line, takes longer than the line is long.

function render(lines: string[], depth: number): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let at = 0;
  const line = (index: number): string => lines[index] ?? "";
  while (at < lines.length) {
    const here = line(at);
    const fence = FENCE.exec(here);
    const heading = HEADING.exec(here);
    if (here.trim() === "") at++;
    else if (fence) {
      const end = lines.findIndex((one, index) => index > at && one.trim().startsWith(fence[1] ?? "```"));
      const stop = end < 0 ? lines.length : end;
      out.push(<pre><code><Plain text={lines.slice(at + 1, stop).join("\n")} /></code></pre>);
      at = stop + 1;
    } else if (heading) {
      // Headings of a message are no headings of the page.
      out.push(<p class={`heading h${heading[1]?.length ?? 1}`}><strong>{inline(headline(here.slice(heading[0].length)))}</strong></p>);
      at++;
    } else if (RULE.test(here)) {
      out.push(<hr />);
      at++;
    } else if (QUOTE.test(here) && depth < 5) {
      const quoted: string[] = [];
      for (; at < lines.length && QUOTE.test(line(at)); at++) quoted.push(line(at).replace(QUOTE, ""));
      out.push(<blockquote>{render(quoted, depth + 1)}</blockquote>);
    } else if (ITEM.test(here) && depth < 8) {
      const [list, next] = renderList(lines, at, depth);
      out.push(list);
      at = next;
    } else if (ROW.test(here) && isDivider(line(at + 1))) {
      const rows: string[][] = [];
      const head = cells(here);
      for (at += 2; at < lines.length && ROW.test(line(at)); at++) rows.push(cells(line(at)));
      out.push(
        <div class="scroll">
          <table>
            <thead><tr>{head.map((cell) => <th>{inline(cell)}</th>)}</tr></thead>
            <tbody>{rows.map((row) => <tr>{row.map((cell) => <td>{inline(cell)}</td>)}</tr>)}</tbody>
          </table>
        </div>,
      );
    } else {
      const said: string[] = [here];
      for (at++; at < lines.length && continues(line(at)); at++) said.push(line(at));
      out.push(<p>{said.flatMap((one, index) => (index === 0 ? inline(one) : [<br />, ...inline(one)]))}</p>);
    }
  }
  return out;
}

function continues(text: string): boolean {
  return text.trim() !== "" && ![FENCE, HEADING, RULE, QUOTE, ITEM].some((one) => one.test(text));
}

function isDivider(row: string): boolean {
  return row.includes("|") && cells(row).every((cell) => /^:?-+:?$/.test(cell));
}

/** Without the # that may close it too. */
function headline(text: string): string {
  let end = text.trimEnd().length;
  while (text.charAt(end - 1) === "#") end--;
  return text.slice(0, end).trim();
}

function cells(row: string): string[] {
  return row.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

function renderList(lines: string[], start: number, depth: number): [ComponentChildren, number] {
  const first = ITEM.exec(lines[start] ?? "");
  const indent = first?.[1]?.length ?? 0;
  const ordered = /\d/.test(first?.[2] ?? "");
  const items: string[][] = [];
  let at = start;
  for (; at < lines.length; at++) {
    const here = lines[at] ?? "";
    const item = ITEM.exec(here);
    const inner = here.search(/\S/);
    if (item && (item[1]?.length ?? 0) <= indent && /\d/.test(item[2] ?? "") === ordered && (item[1]?.length ?? 0) >= indent) {
      items.push([item[3] ?? ""]);
    } else if (inner > indent || (here.trim() === "" && (lines[at + 1] ?? "").search(/\S/) > indent)) {
      items.at(-1)?.push(here.slice(Math.min(indent + 2, Math.max(inner, 0))));
    } else break;
  }
  const children = items.map((item) => <li>{item.length === 1 ? inline(item[0] ?? "") : render(item, depth + 1)}</li>);
  const begin = Number.parseInt(first?.[2] ?? "1", 10);
  return [ordered ? <ol start={begin}>{children}</ol> : <ul>{children}</ul>, at];
}

/** Characters of a line in which marks count; a longer one is data, and shown as it is. */
const LONGEST_LINE = 20_000;
const MOST_TARGET = 2_000;
const START = /`+|!?\[|<?https?:\/\/|\*\*|__|[*_]|~~|\\[\\`*_{}[\]()#+.!|~<>-]/g;
const ADDRESS = /<?(https?:\/\/[^\s<>"']*[^\s<>"'.,;:!?)])>?/y;
const TARGET = /^<?([^\s>]*)>?(?:\s+"[^"]*")?$/;

interface Found {
  end: number;
  node: ComponentChildren;
}

/** Where a mark stands next. Looks at no part of the text twice, so that marks which nothing closes cost nothing. */
function finder(text: string): (mark: string, from: number) => number {
  const known = new Map<string, { from: number; at: number }>();
  return (mark, from) => {
    const before = known.get(mark);
    if (before !== undefined && before.from <= from && (before.at < 0 || before.at >= from)) return before.at;
    const at = text.indexOf(mark, from);
    known.set(mark, { from, at });
    return at;
  };
}

function inline(text: string, depth = 0): ComponentChildren[] {
  if (text.length > LONGEST_LINE || depth >= 6) return [<Plain text={text} />];
  const out: ComponentChildren[] = [];
  const find = finder(text);
  let shown = 0;
  let at = 0;
  for (;;) {
    START.lastIndex = at;
    const start = START.exec(text);
    if (start === null) break;
    const found = element(text, start.index, start[0], find, depth);
    if (found === null) {
      at = start.index + (start[0].startsWith("`") ? start[0].length : 1);
      continue;
    }
    if (start.index > shown) out.push(<Plain text={text.slice(shown, start.index)} />);
    out.push(found.node);
    at = shown = found.end;
  }
  if (shown < text.length) out.push(<Plain text={text.slice(shown)} />);
  return out;
}

/** What `mark` begins at `at`; null where it is only text. */
function element(text: string, at: number, mark: string, find: (mark: string, from: number) => number, depth: number): Found | null {
  const from = at + mark.length;
  if (mark.startsWith("\\")) return { end: from, node: mark.slice(1) };
  if (mark.startsWith("`")) return code(text, from, mark, find);
  if (mark.endsWith("[")) return link(text, from, find, depth);
  if (mark.endsWith("//")) {
    ADDRESS.lastIndex = at;
    const [all, address] = ADDRESS.exec(text) ?? [];
    return all === undefined || address === undefined ? null : { end: at + all.length, node: <Link target={address} shown={<Plain text={address} />} label={address} /> };
  }
  // A mark opens before a word; within one, _ is part of a name.
  if (!/\S/.test(text.charAt(from)) || (mark.startsWith("_") && /\w/.test(text.charAt(at - 1)))) return null;
  const close = find(mark, from + (mark.length > 1 ? 1 : 0));
  if (close <= from) return null;
  const end = close + mark.length;
  if (mark.length === 1 && /\w/.test(text.charAt(end))) return null;
  const within = inline(text.slice(from, close), depth + 1);
  return { end, node: mark === "~~" ? <del>{within}</del> : mark.length > 1 ? <strong>{within}</strong> : <em>{within}</em> };
}

/** Code ends at as many backticks as it began with, no more and no fewer. */
function code(text: string, from: number, mark: string, find: (mark: string, from: number) => number): Found | null {
  let close = find(mark, from);
  while (close >= 0) {
    let end = close + mark.length;
    while (text.charAt(end) === "`") end++;
    if (end === close + mark.length) break;
    close = find(mark, end);
  }
  if (close < 0) return null;
  const said = text.slice(from, close);
  return { end: close + mark.length, node: <code><Plain text={said.trim() === "" ? said : said.replace(/^ ([^]*) $/, "$1")} /></code> };
}

/** `[label](target "title")`; the label may have brackets in it, one deep. */
function link(text: string, from: number, find: (mark: string, from: number) => number, depth: number): Found | null {
  let close = from;
  for (let open = 1; open > 0; close++) {
    const it = text.charAt(close);
    if (it === "" || open > 2) return null;
    if (it === "[") open++;
    else if (it === "]") open--;
  }
  if (text.charAt(close) !== "(") return null;
  const end = find(")", close);
  if (end < 0 || end - close > MOST_TARGET) return null;
  const target = TARGET.exec(text.slice(close + 1, end).trim());
  if (target === null) return null;
  const label = text.slice(from, close - 1);
  return { end: end + 1, node: <Link target={target[1] ?? ""} shown={inline(label, depth + 1)} label={label} /> };
}

/** Only web and mail addresses; where the text is another than the address, the address's host stands beside it. */
function Link({ target, shown, label }: { target: string; shown: ComponentChildren; label: string }) {
  let url: URL | null = null;
  try {
    url = new URL(target);
  } catch {
    // No absolute address: text.
  }
  if (url === null || !["https:", "http:", "mailto:"].includes(url.protocol)) return <span>{shown}</span>;
  const place = url.protocol === "mailto:" ? url.pathname : url.host;
  // One that is written out says its host itself, but for what stands before an `@` or is written in letters of two kinds.
  const saysItself = label === target && (url.protocol === "mailto:" ? url.pathname === target.slice("mailto:".length) : target.toLowerCase().startsWith(`${url.protocol}//${url.host}`));
  return (
    <span>
      <a href={url.href} target="_blank" rel="noopener noreferrer nofollow">{shown}</a>
      {!saysItself && <span class="where"> (<Plain text={place} />)</span>}
    </span>
  );
}
