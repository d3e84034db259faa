// Words for what a record holds.

import { isObject, write, type Json, type JsonObject } from "./json";
import type { Interrupt } from "./types";

export function toolName(record: Interrupt): string | null {
  const name = record.payload["tool_name"];
  return typeof name === "string" ? name : null;
}

/** The arguments of a call; nothing where there are none that have names. */
export function argsOf(record: Interrupt): JsonObject | undefined {
  const args = record.payload["tool_args"];
  return isObject(args) ? args : undefined;
}

/** What stands at the top of a request. */
export function title(record: Interrupt): string {
  const tool = toolName(record);
  if (record.type === "unknown_outcome") return `What came of ${tool ?? "a step"}?`;
  if (tool !== null && record.type === "tool_approval") return tool;
  const asked = questionsIn(record);
  if (asked.length === 1) return asked[0]?.question ?? "";
  if (asked.length > 1) return `${asked.length} questions: ${asked.map((one) => one.header || one.question).join(", ")}`;
  const prompt = record.message ?? text(record.payload["prompt"]) ?? text(record.payload["question"]) ?? text(record.payload["title"]);
  const [first = ""] = (prompt ?? "").trim().split("\n");
  return flat(first) || record.type.replace(/_/g, " ");
}

/** Members of the payload that need not be shown below the title: the type, and what the title says to the letter. */
export function said(record: Interrupt): string[] {
  const top = title(record);
  return Object.entries(record.payload).filter(([name, value]) => name === "type" || value === top).map(([name]) => name);
}

const LONGEST_LINE = 400;

/** What fits on a line of a list: laying out much more than anybody sees takes long. */
export function lineOf(value: string): string {
  if (value.length <= LONGEST_LINE) return value;
  // No half of a character at the end.
  return `${value.slice(0, LONGEST_LINE).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** One line about it. */
export function summary(record: Interrupt): string {
  if (record.message !== null && flat(record.message) !== title(record)) return flat(record.message);
  const args = summaryOf(argsOf(record) ?? {});
  if (args !== "") return args;
  const asked = questionsIn(record);
  if (asked.length > 0) return asked.flatMap((one) => one.options.map((option) => option.label)).join(" / ");
  const rest = Object.entries(record.payload).filter(([name, value]) => name !== "type" && (typeof value !== "string" || flat(value) !== title(record)));
  return rest.map(([name, value]) => `${name}: ${short(value)}`).join("  ·  ");
}

/** The same, of one that was decided: what an approver changed is what ran. */
export function decided(record: Interrupt): string {
  const args = isObject(record.value) ? record.value["args"] : undefined;
  return outcome(record) === "approved with changes" && isObject(args) ? summaryOf(args) : summary(record);
}

/** Arguments on one line. */
export function summaryOf(args: JsonObject): string {
  return Object.entries(args).map(([name, value]) => `${name}: ${short(value)}`).join("  ·  ");
}

function short(value: Json): string {
  const shown = typeof value === "string" ? value : write(value);
  return oneLine(shown.length > 160 ? `${shown.slice(0, 160)}…` : shown);
}

/** Whether a message says more than the title, or has links. */
export function saysMore(record: Interrupt): boolean {
  return record.message !== null && (flat(record.message) !== title(record) || /\]\(|:\/\//.test(record.message));
}

const LONGEST_FLAT = 2_000;

/** Markdown on one line, without its marks. */
export function flat(value: string): string {
  // Marks that nothing closes would be looked for again and again.
  if (value.length > LONGEST_FLAT) return oneLine(value);
  return oneLine(value.replace(/(\*\*|__|~~|`)(\S(?:.*?\S)?)\1/g, "$2").replace(/^\s{0,3}(#{1,6}|>|[-*+])\s+/gm, ""));
}

function oneLine(value: string): string {
  return value.replace(/\s+/g, " ").trim();
}

function text(value: Json | undefined): string | null {
  return typeof value === "string" && value.trim() !== "" ? value : null;
}

export interface Option {
  label: string;
  description: string;
  preview: string | null;
}

export interface Question {
  question: string;
  header: string;
  multiple: boolean;
  options: Option[];
}

/** The questions of a `user_input` whose answers are taken one by one; none of one that only has the name. */
export function questions(record: Interrupt): Question[] {
  const schema = record.response_schema;
  const answers = isObject(schema) && isObject(schema["properties"]) ? schema["properties"]["answers"] : undefined;
  return answers === undefined ? [] : questionsIn(record);
}

/** The questions in a payload; none where it is not one that we understand. */
function questionsIn(record: Interrupt): Question[] {
  const list = record.payload["questions"];
  if (record.type !== "user_input" || !Array.isArray(list)) return [];
  const read: Question[] = [];
  for (const one of list) {
    if (!isObject(one) || typeof one["question"] !== "string" || !Array.isArray(one["options"])) return [];
    const options: Option[] = [];
    for (const option of one["options"]) {
      if (!isObject(option) || typeof option["label"] !== "string") return [];
      const preview = text(option["markdown"]) ?? text(option["preview"]);
      options.push({ label: option["label"], description: text(option["description"]) ?? "", preview });
    }
    read.push({ question: one["question"], header: text(one["header"]) ?? "", multiple: one["multiSelect"] === true, options });
  }
  return read;
}

/** What was answered, in a few words. */
export function outcome(record: Interrupt): string {
  if (record.status === "pending") return "waits";
  if (record.status !== "resolved") return record.status;
  const value = record.value;
  if (record.type === "tool_approval" && isObject(value)) {
    if (value["type"] === "edit" || (value["approved"] === true && value["args"] !== undefined)) return "approved with changes";
    if (value["type"] === "respond") return "answered in its place";
    return value["type"] === "approve" || value["approved"] === true ? "approved" : "rejected";
  }
  return "answered";
}

export function outcomeTone(record: Interrupt): "good" | "bad" | "plain" {
  const word = outcome(record);
  if (word.startsWith("approved")) return "good";
  return word === "rejected" || word === "expired" ? "bad" : "plain";
}

/** Who decided: a key's name, a rule, or nobody that is known. */
export function decider(record: Interrupt): string | null {
  if (record.status !== "resolved") return null;
  if (record.resolved_by === "policy" && record.rule !== null) return ruleName(record.rule);
  return record.resolved_by;
}

export function ruleName(rule: string): string {
  const [kind, ...rest] = rule.split(":");
  const name = rest.join(":");
  if (kind === "policy") return `rule “${name}”`;
  if (kind === "grant") return "an approval for the session";
  if (rule === "on_approval") return "the tool’s own code";
  return rule;
}

const units: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
];

export function span(seconds: number): string {
  for (const [size, unit] of units) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.max(0, Math.floor(seconds))} s`;
}

export function age(time: string, now: number): string {
  const seconds = (now - Date.parse(time)) / 1000;
  return seconds < 10 ? "just now" : `${span(seconds)} ago`;
}

export function shortAge(time: string, now: number): string {
  const seconds = (now - Date.parse(time)) / 1000;
  return seconds < 10 ? "now" : span(seconds);
}

export function left(time: string, now: number): { text: string; urgent: boolean } {
  const seconds = (Date.parse(time) - now) / 1000;
  return seconds <= 0 ? { text: "time is up", urgent: true } : { text: `${span(seconds)} left`, urgent: seconds < 300 };
}

/** With the date where it is not today's. */
export function clock(time: string): string {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return at.toLocaleString(undefined, {
    ...(today ? {} : { day: "numeric", month: "short" }),
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
}

/** The end of an id tells sessions apart; its beginning is a time. */
export function shortId(id: string): string {
  return id.length > 12 ? `…${id.slice(-8)}` : id;
}

/** What a session is called; without a title its id has to do. */
export function sessionName(id: string, session: { title: string | null } | undefined): string {
  return session?.title ? flat(session.title) : `Session ${shortId(id)}`;
}

export function counted(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}
