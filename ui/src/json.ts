// JSON without loss: a number that would be written otherwise keeps its digits, because what is approved has to be what was
// shown; an untouched 1.0 stays 1.0.

export type Json = null | boolean | number | string | RawNumber | Json[] | JsonObject;
export type JsonObject = { [member: string]: Json };

export class RawNumber {
  constructor(readonly digits: string) {}
  toString(): string {
    return this.digits;
  }
}

/** What no text of anybody's begins with. Marks digits on their way through the browser's own reader. */
const MARK = [...crypto.getRandomValues(new Uint32Array(4))].map((number) => number.toString(36)).join("-");
/** A text, or a number. In a text nothing is to be found, so it is passed over as a whole. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\d.])/gs;

/** Reads JSON. Throws a `SyntaxError` where it is none. */
export function parse(text: string): Json {
  let isMarked = false;
  const marked = text.replace(TOKEN, (token) => {
    if (token.startsWith('"') || String(Number(token)) === token) return token;
    isMarked = true;
    return `"${MARK}${token}"`;
  });
  if (!isMarked) return JSON.parse(text) as Json;
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(MARK) ? new RawNumber(value.slice(MARK.length)) : value,
  ) as Json;
}

/** Writes JSON; `indent` for people. */
export function write(value: Json | undefined, indent = 0): string {
  return written(value ?? null, indent, "\n");
}

function written(value: Json, indent: number, line: string): string {
  if (value instanceof RawNumber) return value.digits;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const inner = line + " ".repeat(indent);
  const colon = indent === 0 ? ":" : ": ";
  const parts = Array.isArray(value)
    ? value.map((one: Json | undefined) => written(one ?? null, indent, inner))
    : Object.entries(value).filter(([, one]) => one !== undefined).map(([name, one]) => `${JSON.stringify(name)}${colon}${written(one, indent, inner)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (parts.length === 0) return `${open}${close}`;
  return indent === 0 ? `${open}${parts.join(",")}${close}` : `${open}${inner}${parts.join(`,${inner}`)}${line}${close}`;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof RawNumber);
}

export function equal(one: Json | undefined, other: Json | undefined): boolean {
  return one === other || (one !== undefined && other !== undefined && sorted(one) === sorted(other));
}

/** Whether two entries of a list are equal. */
export function hasTwice(list: Json[]): boolean {
  return new Set(list.map(sorted)).size < list.length;
}

function sorted(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(",")}]`;
  if (!isObject(value)) return write(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${sorted(value[key] ?? null)}`).join(",")}}`;
}
