// Whether a value fits a JSON Schema, as far as forms need it; the server has the last word.

import { equal, hasTwice, isObject, RawNumber, write, type Json, type JsonObject } from "./json";

export interface Wrong {
  path: (string | number)[];
  text: string;
}

export function resolve(schema: Json | undefined, root: Json): JsonObject {
  let at: Json | undefined = schema;
  for (let hops = 0; hops < 20 && isObject(at) && typeof at["$ref"] === "string"; hops++) {
    const target = follow(at["$ref"], root);
    if (target === undefined) return {};
    const { $ref: _, ...beside } = at;
    at = isObject(target) ? { ...target, ...beside } : target;
  }
  return isObject(at) ? at : {};
}

function follow(reference: string, root: Json): Json | undefined {
  if (!reference.startsWith("#")) return undefined;
  let at: Json | undefined = root;
  for (const part of reference.slice(1).split("/").slice(1)) {
    const key = decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~");
    if (Array.isArray(at)) at = at[Number(key)];
    else at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return at;
}

export function typesOf(schema: JsonObject): string[] {
  const type = schema["type"];
  return Array.isArray(type) ? type.map(String) : typeof type === "string" ? [type] : [];
}

export function typeOf(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (value instanceof RawNumber) return isWhole(value.digits) ? "integer" : "number";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

/** 1.0 is a whole number too. */
function isWhole(digits: string): boolean {
  return /^-?\d+(\.0+)?$/.test(digits) || (/e/i.test(digits) && Number.isInteger(Number(digits)));
}

const named = new Map([
  ["integer", "a whole number"],
  ["number", "a number"],
  ["string", "text"],
  ["boolean", "yes or no"],
  ["array", "a list"],
  ["object", "an object"],
  ["null", "nothing"],
]);

/** Places of a value, each with one schema, that are looked at: choices within choices would be looked at for hours. */
const MOST_VISITS = 20_000;

/** What is known to be wrong. A schema may be too much to look at all of it; the server does. */
export function check(value: Json, schema: Json | undefined, root: Json): Wrong[] {
  return visit(value, schema, { root, visits: MOST_VISITS }, [], 0);
}

interface Looking {
  root: Json;
  /** How many more there may be. */
  visits: number;
}

function visit(value: Json, schema: Json | undefined, look: Looking, path: (string | number)[], depth: number): Wrong[] {
  if (schema === false) return [{ path, text: "is not allowed here" }];
  if (!isObject(schema) || depth > 40 || look.visits-- <= 0) return [];
  const { root } = look;
  const it = resolve(schema, root);
  const wrong: Wrong[] = [];
  const say = (text: string): void => void wrong.push({ path, text });
  const types = typesOf(it);
  const type = typeOf(value);
  // An empty field.
  if ((value === null || value === "") && types.length > 0 && !types.includes(type)) return [{ path, text: "is missing" }];
  if (types.length > 0 && !types.includes(type) && !(type === "integer" && types.includes("number"))) {
    return [{ path, text: `has to be ${types.map((one) => named.get(one) ?? one).join(" or ")}` }];
  }
  if (it["const"] !== undefined && !equal(value, it["const"])) say(`has to be ${write(it["const"])}`);
  if (Array.isArray(it["enum"]) && !it["enum"].some((one) => equal(one, value))) {
    say(`has to be one of ${it["enum"].map((one) => write(one)).join(", ")}`);
  }
  if (typeof value === "string") checkText(value, it, say);
  if (type === "integer" || type === "number") checkNumber(Number(value), it, say);
  if (Array.isArray(value)) {
    if (below(value.length, it["minItems"])) say(`needs at least ${it["minItems"]}`);
    if (above(value.length, it["maxItems"])) say(`takes at most ${it["maxItems"]}`);
    if (it["uniqueItems"] === true && hasTwice(value)) {
      say("has something twice");
    }
    const first = Array.isArray(it["prefixItems"]) ? it["prefixItems"] : [];
    value.forEach((one, index) => wrong.push(...visit(one, first[index] ?? it["items"], look, [...path, index], depth + 1)));
  }
  if (isObject(value)) wrong.push(...checkMembers(value, it, look, path, depth));
  wrong.push(...checkCombined(value, it, look, path, depth));
  return wrong;
}

type Say = (text: string) => void;
const isNumber = (limit: Json | undefined): boolean => typeof limit === "number" || limit instanceof RawNumber;
const below = (size: number, limit: Json | undefined): boolean => isNumber(limit) && size < Number(limit);
const above = (size: number, limit: Json | undefined): boolean => isNumber(limit) && size > Number(limit);

function checkText(value: string, it: JsonObject, say: Say): void {
  const length = [...value].length;
  if (below(length, it["minLength"])) say(it["minLength"] === 1 ? "is missing" : `needs at least ${it["minLength"]} characters`);
  if (above(length, it["maxLength"])) say(`takes at most ${it["maxLength"]} characters`);
  // A `pattern` is the server's to try. It is the tool's, and a browser tries one such as `^(a+)+$` for hours.
}

function checkNumber(value: number, it: JsonObject, say: Say): void {
  if (below(value, it["minimum"])) say(`has to be at least ${it["minimum"]}`);
  if (above(value, it["maximum"])) say(`has to be at most ${it["maximum"]}`);
  if (isNumber(it["exclusiveMinimum"]) && value <= Number(it["exclusiveMinimum"])) say(`has to be more than ${it["exclusiveMinimum"]}`);
  if (isNumber(it["exclusiveMaximum"]) && value >= Number(it["exclusiveMaximum"])) say(`has to be less than ${it["exclusiveMaximum"]}`);
}

function checkMembers(value: JsonObject, it: JsonObject, look: Looking, path: (string | number)[], depth: number): Wrong[] {
  const wrong: Wrong[] = [];
  const properties = isObject(it["properties"]) ? it["properties"] : {};
  const required = Array.isArray(it["required"]) ? it["required"].map(String) : [];
  for (const name of required) if (!Object.hasOwn(value, name)) wrong.push({ path: [...path, name], text: "is missing" });
  for (const [name, member] of Object.entries(value)) {
    const rule = Object.hasOwn(properties, name) ? properties[name] : isObject(it["patternProperties"]) ? undefined : it["additionalProperties"];
    wrong.push(...visit(member, rule, look, [...path, name], depth + 1));
  }
  const size = Object.keys(value).length;
  if (below(size, it["minProperties"])) wrong.push({ path, text: `needs at least ${it["minProperties"]}` });
  if (above(size, it["maxProperties"])) wrong.push({ path, text: `takes at most ${it["maxProperties"]}` });
  return wrong;
}

function checkCombined(value: Json, it: JsonObject, look: Looking, path: (string | number)[], depth: number): Wrong[] {
  const wrong: Wrong[] = [];
  for (const part of Array.isArray(it["allOf"]) ? it["allOf"] : []) wrong.push(...visit(value, part, look, path, depth + 1));
  const choices = Array.isArray(it["anyOf"]) ? it["anyOf"] : Array.isArray(it["oneOf"]) ? it["oneOf"] : null;
  if (choices === null) return wrong;
  const meant = choices.filter((choice) => mayBeMeant(value, choice, look.root));
  let deepest: Wrong[] | null = null;
  for (const choice of meant.length > 0 ? meant : choices) {
    const tried = visit(value, choice, look, path, depth + 1);
    if (tried.length === 0) return wrong;
    // The choice that goes deepest is the one that was meant.
    if (deepest === null || (tried[0]?.path.length ?? 0) > (deepest[0]?.path.length ?? 0)) deepest = tried;
  }
  return [...wrong, ...(deepest ?? [{ path, text: "does not fit" }])];
}

/** Whether neither the value's type nor a member that names its kind says that another choice was. */
function mayBeMeant(value: Json, choice: Json, root: Json): boolean {
  const it = resolve(choice, root);
  const types = typesOf(it);
  const type = typeOf(value);
  if (types.length > 0 && !types.includes(type) && !(type === "integer" && types.includes("number"))) return false;
  if (!isObject(value)) return true;
  const properties = isObject(it["properties"]) ? it["properties"] : {};
  return Object.entries(value).every(([name, member]) => {
    const rule = Object.hasOwn(properties, name) ? resolve(properties[name], root) : {};
    if (rule["const"] !== undefined && !equal(rule["const"], member)) return false;
    return !Array.isArray(rule["enum"]) || rule["enum"].some((one) => equal(one, member));
  });
}

/** The schema of an edit's arguments; null where the tool has none that can be checked. */
export function argsSchema(responseSchema: Json): JsonObject | null {
  if (!isObject(responseSchema)) return null;
  const args = isObject(responseSchema["$defs"]) ? responseSchema["$defs"]["args"] : undefined;
  return isObject(args) ? args : null;
}

/** Members that a form begins with: one that asks for itself twelve times would have more than anybody fills in. */
const MOST_MEMBERS = 100;

/** Where a form may begin: a default, an only choice, or nothing of the right kind. */
export function blank(schema: Json | undefined, root: Json, room = { members: MOST_MEMBERS }, depth = 0): Json {
  const it = resolve(schema, root);
  if (it["default"] !== undefined) return it["default"];
  if (it["const"] !== undefined) return it["const"];
  if (Array.isArray(it["enum"]) && it["enum"].length === 1) return it["enum"][0] ?? null;
  const type = typesOf(it)[0];
  if (type === "object" && depth < 6) {
    const properties = isObject(it["properties"]) ? it["properties"] : {};
    const required = Array.isArray(it["required"]) ? it["required"].map(String) : [];
    // What there is no room for is absent, and can be added.
    const members = required.filter((name) => Object.hasOwn(properties, name) && room.members-- > 0);
    return Object.fromEntries(members.map((name) => [name, blank(properties[name], root, room, depth + 1)]));
  }
  return type === "array" ? [] : type === "string" ? "" : null;
}
