// A request of a type that this page does not know: a form out of its schema, or a box that takes any answer.

import { useState } from "preact/hooks";
import { title } from "../format";
import { equal, isObject, parse, write, type Json } from "../json";
import { blank, check, resolve } from "../schema";
import { Plain } from "../shown";
import { useStore } from "../store";
import type { Interrupt } from "../types";
import { Broken, Field, JsonField, TypedIn, useBrokenFields, useTypedIn } from "./form";
import type { AnswerProps } from "./props";

/** How the message begins of a question that is asked again, because the agent could not take the answer. */
const REFUSED = "The answer was refused: ";

/** What was answered then, so that one mends it instead of writing all of it anew. */
function answerBefore(record: Interrupt, records: ReadonlyMap<string, Interrupt>): Json | undefined {
  if (record.message?.startsWith(REFUSED) !== true) return undefined;
  const before = [...records.values()].filter(
    (one) => one.status === "resolved" && one.session_id === record.session_id && one.type === record.type && one.interrupt_id < record.interrupt_id && equal(one.payload, record.payload),
  );
  return before.sort((one, other) => (one.interrupt_id < other.interrupt_id ? 1 : -1))[0]?.value ?? undefined;
}

/** A text as JSON: itself, where it is none. */
function read(text: string): Json | undefined {
  if (text.trim() === "") return undefined;
  try {
    return parse(text);
  } catch {
    return text;
  }
}

export function Custom({ record, give, draft, setDraft, refused }: AnswerProps) {
  const schema = isObject(record.response_schema) && Object.keys(record.response_schema).length > 0 ? record.response_schema : null;
  const as = draft.as ?? (schema === null ? "text" : "form");
  const [tried, setTried] = useState(false);
  const [broken, report] = useBrokenFields();
  const typed = useTypedIn(draft, setDraft);
  const refusedBefore = useStore((state) => answerBefore(record, state.records));
  const start = schema === null ? undefined : (refusedBefore ?? blank(schema, schema));
  const value = draft.value === undefined ? (as === "text" ? "" : start) : draft.value;
  const wrong = value === undefined || (as === "text" && typeof value === "string" && value.trim() === "") ? [{ path: [], text: "is missing" }] : schema === null ? [] : check(value, schema, schema);
  const submit = (event: Event): void => {
    event.preventDefault();
    setTried(true);
    if (!broken && wrong.length === 0 && value !== undefined) give(value, `Answered: ${title(record)}`);
  };
  const take = (changed: Json | undefined): void => setDraft({ value: changed });
  const turn = (mode: "form" | "json" | "text"): void => {
    if (mode === as) return;
    const written = draft.value;
    if (schema !== null || written === undefined) setDraft({ as: mode });
    // What was written goes along, as what it is there.
    else setDraft({ as: mode, value: mode === "text" ? (typeof written === "string" ? written : write(written, 2)) : typeof written === "string" ? read(written) : written });
  };
  const shown = [...(tried || draft.value !== undefined ? wrong : []), ...refused];
  const simple = schema !== null && !["object", "array"].includes(String(resolve(schema, schema)["type"]));
  return (
    <form class="editing" onSubmit={submit} noValidate>
      <div class="modes" role="group" aria-label="How to answer">
        {(schema === null ? (["text", "json"] as const) : (["form", "json"] as const)).map((mode) => (
          <button type="button" class="tab" aria-pressed={as === mode} onClick={() => turn(mode)}>
            {mode === "form" ? "Form" : mode === "json" ? "JSON" : "Text"}
          </button>
        ))}
      </div>
      <Broken.Provider value={report}><TypedIn.Provider value={typed}>
        {as === "form" && schema !== null && (
          <Field schema={schema} root={schema} value={value} onChange={take} wrong={shown} path={simple ? ["answer"] : []} label="Answer" required />
        )}
        {as === "form" && simple && <p class="wrong" role="status"><Plain text={shown.map((one) => one.text).join("; ")} /></p>}
        {as === "json" && <JsonField value={value} onChange={take} wrong={shown} path={[]} label="Answer" required />}
        {as === "text" && (
          <div class="field">
            <label for={`text-${record.interrupt_id}`}>Answer</label>
            <textarea id={`text-${record.interrupt_id}`} rows={3} value={typeof value === "string" ? value : ""} onInput={(event) => take(event.currentTarget.value)} />
          </div>
        )}
      </TypedIn.Provider></Broken.Provider>
      <div class="buttons">
        <button type="submit" class="primary" disabled={broken}>Answer</button>
        <p class="muted" role="status">
          {tried && wrong.length > 0 ? "The answer does not fit yet." : schema === null ? "Nothing says what an answer looks like: any text or JSON is taken." : ""}
        </p>
      </div>
    </form>
  );
}
