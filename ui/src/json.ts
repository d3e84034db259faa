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

type Source = { source?: string } | undefined;

/** Reads JSON. Throws a `SyntaxError` where it is none. */
export function parse(text: string): Json {
  // The third argument is newer than TypeScript's library knows.
  const reviver = (_: string, value: unknown, context?: Source): unknown =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source ? new RawNumber(context.source) : value;
  return JSON.parse(text, reviver as (key: string, value: unknown) => unknown) as Json;
}

const rawJson = (JSON as unknown as { rawJSON?: (text: string) => unknown }).rawJSON;

/** Writes JSON; `indent` for people. */
export function write(value: Json | undefined, indent?: number): string {
  const replacer = (_: string, it: unknown): unknown =>
    it instanceof RawNumber ? (rawJson ? rawJson(it.digits) : Number(it.digits)) : it;
  return JSON.stringify(value === undefined ? null : value, replacer, indent);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof RawNumber);
}

export function equal(one: Json | undefined, other: Json | undefined): boolean {
  return one === other || (one !== undefined && other !== undefined && sorted(one) === sorted(other));
}

function sorted(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(",")}]`;
  if (!isObject(value)) return write(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${sorted(value[key] ?? null)}`).join(",")}}`;
}
