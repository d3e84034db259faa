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
const HEADING = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const QUOTE = /^\s{0,3}>\s?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const ROW = /^\s*\|.*\|\s*$/;
const DIVIDER = /^\s*\|?(\s*:?-+:?\s*\|)+\s*:?-*:?\s*\|?\s*$/;

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
      out.push(<p class={`heading h${heading[1]?.length ?? 1}`}><strong>{inline(heading[2] ?? "")}</strong></p>);
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
    } else if (ROW.test(here) && DIVIDER.test(line(at + 1))) {
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

// Alternatives in the order in which they bind: code, links, addresses, strong, emphasis, struck.
const INLINE =
  /(`+)([^`]|[^`].*?[^`])\1(?!`)|!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?([^\s)>]*)>?(?:\s+"[^"]*")?\s*\)|<?(https?:\/\/[^\s<>"']*[^\s<>"'.,;:!?)])>?|(\*\*|__)(?=\S)(.+?\S?)\6|([*_])(?=\S)((?:(?!\8).)+?)\8(?!\w)|~~(?=\S)(.+?)~~|\\([\\`*_{}[\]()#+.!|~<>-])/;

function inline(text: string, depth = 0): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let rest = text;
  while (rest !== "") {
    const found = depth < 6 ? INLINE.exec(rest) : null;
    if (found === null) {
      out.push(<Plain text={rest} />);
      break;
    }
    if (found.index > 0) out.push(<Plain text={rest.slice(0, found.index)} />);
    const [all, , code, label, target, address, , strong, , emphasis, struck, escaped] = found;
    const within = /[\w]$/.test(rest.slice(0, found.index)) && /^_/.test(all);
    if (within) out.push(<Plain text={all} />);
    else if (code !== undefined) out.push(<code><Plain text={code.trim() === "" ? code : code.replace(/^ (.*) $/, "$1")} /></code>);
    else if (label !== undefined) out.push(<Link target={target ?? ""} shown={inline(label, depth + 1)} label={label} />);
    else if (address !== undefined) out.push(<Link target={address} shown={<Plain text={address} />} label={address} />);
    else if (strong !== undefined) out.push(<strong>{inline(strong, depth + 1)}</strong>);
    else if (emphasis !== undefined) out.push(<em>{inline(emphasis, depth + 1)}</em>);
    else if (struck !== undefined) out.push(<del>{inline(struck, depth + 1)}</del>);
    else out.push(escaped ?? "");
    rest = rest.slice(found.index + all.length);
  }
  return out;
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
  return (
    <span>
      <a href={url.href} target="_blank" rel="noopener noreferrer nofollow">{shown}</a>
      {label !== target && <span class="where"> (<Plain text={place} />)</span>}
    </span>
  );
}
