// What was said in a session, and what its newest turn did that is not among its messages yet, or never will be.

import { api, Problem } from "../api";
import { isObject, write, type Json } from "../json";
import type { Step } from "../live";
import type { Attachment, JournalEntry, Message, SessionStatus } from "../types";

/** As much of a journal as the server gives at once. */
const ENTRIES = "1000";

/** What was said in a session, whether all that its newest turn did is in it, and whether that turn was over when it was read. */
export interface Conversation {
  messages: Message[];
  isWhole: boolean;
  isOver: boolean;
}

/** From how many messages on those that are known are not read again: what is short is read whole. */
const MANY = 100;

/**
 * Reads the messages of a session again and again: of a long one what is new. A turn may change what was said before, as
 * one that sums it up does, so the last message that is known comes again: where another stands there, all are read.
 */
export function readerOf(session: string): () => Promise<Message[]> {
  let known: Message[] = [];
  return async () => {
    const before = known;
    const last = before.length - 1;
    if (before.length >= MANY) {
      const [again, ...added] = await api.messages(session, last);
      if (again !== undefined && write(again as unknown as Json) === write(before[last] as unknown as Json)) return (known = [...before, ...added]);
    }
    return (known = await api.messages(session));
  };
}

/**
 * The messages, and what the newest turn did, as long as it is open or where it has failed: then only its journal has it.
 * `read`: the messages of the session as it was with this status, for who has them already; `readAgain`: as they are by then.
 */
export async function conversation(session: string, status: SessionStatus, read: () => Promise<Message[]>, readAgain = read): Promise<Conversation> {
  // A turn's messages come when it ends. What is asked for after them and still finds it open has none of them.
  const before = await read();
  if (status === "idle") return { messages: before, isWhole: true, isOver: true };
  const [turn, now] = await Promise.all([journal(session), api.session(session)]);
  if (now.status === "idle") return { messages: await readAgain(), isWhole: true, isOver: true };
  return { messages: [...before, ...turn.items.flatMap(messageIn)], isWhole: turn.isWhole, isOver: status === "error" };
}

async function journal(session: string): Promise<{ items: JournalEntry[]; isWhole: boolean }> {
  try {
    const { items, next } = await api.journal(session, { limit: ENTRIES });
    return { items, isWhole: next === null };
  } catch (error) {
    // Without it the conversation is what the messages say.
    if (error instanceof Problem) return { items: [], isWhole: false };
    throw error;
  }
}

function messageIn(entry: JournalEntry): Message[] {
  const step = entry.path ?? undefined;
  const about = { ...(step === undefined ? {} : { step }), ...(entry.shortened === true ? { shortened: true } : {}), ...files(entry.attachments) };
  if (entry.entry === "start") return isObject(entry.message) ? [{ ...(entry.message as unknown as Message), ...about, began: true }] : [];
  if (entry.entry !== "step") return [];
  if (entry.kind === "tool") {
    const failed = typeof entry.error === "string" ? { failed: true } : {};
    return [{ role: "tool", name: entry.name ?? null, tool_call_id: entry.tool_call_id ?? null, content: textOf(entry.error ?? entry.result ?? null, entry.attachments), ...failed, ...about }];
  }
  if (entry.kind !== "model") return [];
  const said = isObject(entry.result) ? entry.result["message"] : null;
  if (isObject(said)) return [{ ...(said as unknown as Message), ...about }];
  // The beginning of a long one is no JSON.
  return about.shortened === true ? [{ role: "assistant", content: null, ...about }] : [];
}

/** A step as it was heard. */
export function messageOf(step: Step): Message {
  if (step.message !== undefined) return { ...step.message, step: step.step_id };
  const failed = step.error === undefined ? {} : { failed: true };
  return { role: "tool", name: step.name ?? null, tool_call_id: step.tool_call_id ?? null, content: step.error ?? textOf(step.result ?? null, step.attachments), step: step.step_id, ...failed, ...files(step.attachments) };
}

const files = (attachments: Attachment[] | undefined): { attachments?: Attachment[] } => (attachments === undefined ? {} : { attachments });

/** As the model reads it: what stands in a list with files and with nothing else but text is lines. */
function textOf(value: Json, attachments?: Attachment[]): string {
  if (attachments !== undefined && Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join("\n");
  return typeof value === "string" ? value : write(value);
}

/** What came of a call: its result, the last one where models use an id again. */
export function resultOf(messages: Message[], call: string | null): Message | null {
  if (call === null) return null;
  return messages.findLast((message) => message.role === "tool" && message.tool_call_id === call) ?? null;
}
