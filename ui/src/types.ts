// What the server sends: the interrupt record, sessions and messages, as docs/http.md has them.

import type { Json, JsonObject } from "./json";

export type InterruptStatus = "pending" | "resolved" | "expired" | "cancelled";
export type DecisionKind = "approve" | "edit" | "reject" | "respond";
export type SessionStatus = "idle" | "running" | "interrupted" | "error";

export interface Interrupt {
  interrupt_id: string;
  session_id: string;
  turn_id: string;
  type: string;
  payload: JsonObject;
  status: InterruptStatus;
  message: string | null;
  response_schema: Json;
  allowed_decisions: DecisionKind[] | null;
  tool_call_id: string | null;
  agent: string | null;
  rule: string | null;
  rule_failed?: string | null;
  args_digest: string | null;
  created_at: string;
  expires_at: string | null;
  value: Json;
  resolved_by: string | null;
  resolved_at: string | null;
  metadata: JsonObject | null;
  tool_source?: string;
  sent_by?: string | null;
  approvers?: string[] | null;
  lets_run?: boolean;
  claimed_by?: string | null;
  claimed_until?: string | null;
  snoozed_by?: string | null;
  snoozed_until?: string | null;
}

export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

/** An image or another file: its bytes, base64, or where they are; of the open turn neither where it is too large. */
export interface Attachment {
  media_type: string;
  data?: string;
  url?: string;
  name?: string;
  shortened?: boolean;
}

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content?: string | null;
  reasoning?: string | null;
  tool_calls?: ToolCall[] | null;
  tool_call_id?: string | null;
  name?: string | null;
  base64_image?: string | null;
  attachments?: Attachment[];
  /** Of the open turn: whether it is about this, which step this was, whether it failed, and whether there was more of it. */
  began?: boolean;
  step?: string;
  failed?: boolean;
  shortened?: boolean;
}

export interface SessionSummary {
  session_id: string;
  status: SessionStatus;
  total_messages: number;
  created_at: string;
  updated_at: string;
  agent: string;
}

/** A session in a list. */
export interface TitledSession extends SessionSummary {
  title: string | null;
  agent_name: string;
}

export interface Session extends SessionSummary {
  response: Message | null;
  error: string | null;
  error_code: string | null;
  interrupts: Interrupt[] | null;
}

export interface Grant {
  grant_id: string;
  agent: string | null;
  tool: string;
  tool_source?: string;
  decision: "approve" | "reject";
  reason: string | null;
  created_at: string;
  created_by: string | null;
  approvers?: string[];
}

export interface JournalEntry {
  index: number;
  at: string | null;
  entry: string;
  kind?: string | null;
  name?: string | null;
  path?: string | null;
  tool_call_id?: string;
  location?: string | null;
  message?: JsonObject;
  result?: Json;
  attachments?: Attachment[];
  error?: Json;
  shortened?: boolean;
}

export interface Me {
  name: string | null;
  scopes: string[];
  groups: string[];
  authentication: boolean;
  prevent_self_approval: boolean;
  /** Bytes that a request may have. */
  max_body: number;
}

export interface FieldError {
  loc: (string | number)[];
  msg: string;
  type: string;
}
