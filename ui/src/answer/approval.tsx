// A tool's call: approve it, for once or for the session, change its arguments, refuse it, or answer in its place.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { argsOf, title } from "../format";
import { equal, isObject, type Json } from "../json";
import { isComposing, useKeys } from "../keys";
import { argsSchema, check } from "../schema";
import { Plain } from "../shown";
import { useStore } from "../store";
import type { Interrupt } from "../types";
import { shortId } from "../format";
import { Changes } from "./changes";
import { Broken, Field, JsonField, TypedIn, useBrokenFields, useTypedIn } from "./form";
import type { AnswerProps } from "./props";

export function Approval(props: AnswerProps) {
  const { record, give, draft, setDraft } = props;
  const allowed = record.allowed_decisions ?? ["approve", "reject"];
  const name = title(record);
  const always = draft.always === true;
  // Only a form that was opened just now takes the focus, not one that is still open from before.
  const [focus, setFocus] = useState(false);
  const open = (mode: "edit" | "reject" | "respond"): void => {
    setFocus(true);
    setDraft({ mode });
  };
  const approve = (): void => {
    if (always) give({ approved: true, always: true }, `Approved ${name} for this session`);
    else give({ approved: true }, `Approved ${name}`);
  };
  useKeys(!props.keys || draft.mode !== undefined ? {} : {
    a: () => allowed.includes("approve") && approve(),
    e: () => allowed.includes("edit") && open("edit"),
    r: () => allowed.includes("reject") && open("reject"),
    s: () => setDraft({ always: !always }),
  });
  if (draft.mode === "edit") return <Edit {...props} focus={focus} />;
  if (draft.mode === "reject") return <Reject {...props} focus={focus} />;
  if (draft.mode === "respond") return <Respond {...props} focus={focus} />;
  return (
    <>
      <div class="buttons">
        {allowed.includes("approve") && (
          <button type="button" class="primary" onClick={approve} aria-keyshortcuts="a">
            {always ? "Approve for this session" : "Approve"} <kbd>a</kbd>
          </button>
        )}
        {allowed.includes("edit") && <button type="button" onClick={() => open("edit")} aria-keyshortcuts="e">Edit <kbd>e</kbd></button>}
        {allowed.includes("reject") && (
          <button type="button" class="danger" onClick={() => open("reject")} aria-keyshortcuts="r">Reject… <kbd>r</kbd></button>
        )}
        {allowed.includes("respond") && <button type="button" onClick={() => open("respond")}>Answer in its place…</button>}
      </div>
      {(allowed.includes("approve") || allowed.includes("reject")) && <Always {...props} />}
    </>
  );
}

interface FormProps extends AnswerProps {
  focus: boolean;
}

/** Whether what decides `record` for the session may decide `other`: nobody else alone has to. */
function isOpenTo(other: Interrupt, record: Interrupt): boolean {
  const named = other.approvers ?? [];
  return named.length === 0 || named.join() === (record.approvers ?? []).join();
}

/** The choice to decide for the rest of the session, with what that covers. */
function Always({ record, draft, setDraft }: AnswerProps) {
  const pending = useStore((state) => state.pending);
  const records = useStore((state) => state.records);
  const like = pending.ids.filter((id) => {
    const other = records.get(id);
    return (
      other !== undefined && other.status === "pending" && id !== record.interrupt_id && other.session_id === record.session_id &&
      other.agent === record.agent && title(other) === title(record) && other.tool_source === record.tool_source &&
      isOpenTo(other, record)
    );
  }).length;
  return (
    <label class="always">
      <input type="checkbox" checked={draft.always === true} onChange={(event) => setDraft({ always: event.currentTarget.checked })} aria-keyshortcuts="s" />
      <span>
        For the rest of this session <kbd>s</kbd>
        <small>
          Every later call of <code><Plain text={title(record)} /></code>
          {record.agent !== null && <> by <Plain text={record.agent} /></>} in session {shortId(record.session_id)} is decided the same way, with any
          arguments and without asking{like > 0 && `; so ${like === 1 ? "is the other one" : `are the ${like} others`} that waits there now`}. It can be
          revoked in the session.
        </small>
      </span>
    </label>
  );
}

function Edit({ record, give, draft, setDraft, refused, focus }: FormProps) {
  const before = argsOf(record) ?? {};
  const args = draft.args ?? before;
  const schema = argsSchema(record.response_schema);
  const [broken, report] = useBrokenFields();
  const local = !isObject(args) ? [{ path: [], text: "has to be an object" }] : schema === null ? [] : check(args, schema, record.response_schema);
  const wrong = [...local, ...refused.filter((one) => one.path[0] === "args").map((one) => ({ path: one.path.slice(1), text: one.text }))];
  const isChanged = !equal(before, args);
  const form = useFocusFirst<HTMLFormElement>(focus);
  const typed = useTypedIn(draft, setDraft);
  const close = (): void => setDraft({ mode: undefined, args: undefined, typed: undefined });
  useKeys({ Escape: close });
  const take = (value: Json | undefined): void => {
    if (value !== undefined) setDraft({ args: value });
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    if (broken || local.length > 0 || !isChanged) return;
    give({ type: "edit", args }, `Approved ${title(record)} with your changes`);
  };
  return (
    <form class="editing" ref={form} onSubmit={submit} noValidate>
      <Broken.Provider value={report}><TypedIn.Provider value={typed}>
        {schema === null ? (
          <JsonField value={args} onChange={take} wrong={wrong} path={[]} label="Arguments" required />
        ) : (
          <Field schema={schema} root={record.response_schema} value={args} onChange={take} wrong={wrong} path={[]} label="Arguments" required />
        )}
      </TypedIn.Provider></Broken.Provider>
      <h3>Changes</h3>
      <Changes before={record.payload["tool_args"] ?? null} after={args} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={broken || local.length > 0 || !isChanged}>Approve with changes</button>
        <button type="button" onClick={close}>Discard <kbd>Esc</kbd></button>
        <p class="muted" role="status">
          {broken ? "Mend the JSON first." : local.length > 0 ? `${local.length === 1 ? "One field does" : `${local.length} fields do`} not fit yet.` : isChanged ? "Exactly these arguments will run, after the tool’s own checks." : "Nothing is changed yet."}
        </p>
      </div>
    </form>
  );
}

function Reject({ record, give, draft, setDraft, focus }: FormProps) {
  const form = useFocusFirst<HTMLFormElement>(focus);
  const always = draft.always === true;
  const close = (): void => setDraft({ mode: undefined });
  useKeys({ Escape: close });
  const submit = (event: Event): void => {
    event.preventDefault();
    const reason = (draft.reason ?? "").trim();
    const value = { approved: false, ...(reason === "" ? {} : { reason }), ...(always ? { always: true } : {}) };
    give(value, `Rejected ${title(record)}${always ? " for this session" : ""}`, reason === "" ? undefined : reason);
  };
  return (
    <form class="editing" ref={form} onSubmit={submit}>
      <div class="field">
        <label for={`reason-${record.interrupt_id}`}>Why not? <span class="muted">optional; the agent is told</span></label>
        <textarea id={`reason-${record.interrupt_id}`} rows={2} value={draft.reason ?? ""} onInput={(event) => setDraft({ reason: event.currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
            event.preventDefault();
            form.current?.requestSubmit();
          }} />
      </div>
      <div class="buttons">
        <button type="submit" class="danger solid">{always ? "Reject for this session" : "Reject"} <kbd>Enter</kbd></button>
        <button type="button" onClick={close}>Back <kbd>Esc</kbd></button>
      </div>
    </form>
  );
}

function Respond({ record, give, draft, setDraft, focus }: FormProps) {
  const form = useFocusFirst<HTMLFormElement>(focus);
  const text = typeof draft.response === "string" ? draft.response : "";
  const close = (): void => setDraft({ mode: undefined });
  useKeys({ Escape: close });
  const submit = (event: Event): void => {
    event.preventDefault();
    if (text.trim() !== "") give({ type: "respond", message: text }, `Answered in place of ${title(record)}`);
  };
  return (
    <form class="editing" ref={form} onSubmit={submit}>
      <div class="field">
        <label for={`respond-${record.interrupt_id}`}>What the agent gets as the result <span class="muted">the tool does not run</span></label>
        <textarea id={`respond-${record.interrupt_id}`} rows={4} value={text} onInput={(event) => setDraft({ response: event.currentTarget.value })} />
      </div>
      <div class="buttons">
        <button type="submit" class="primary" disabled={text.trim() === ""}>Answer in its place</button>
        <button type="button" onClick={close}>Back <kbd>Esc</kbd></button>
      </div>
    </form>
  );
}

/** The first field has the focus when somebody opens a form, before the next key can come. */
function useFocusFirst<T extends HTMLElement>(wanted: boolean) {
  const ref = useRef<T>(null);
  useLayoutEffect(() => {
    if (!wanted) return;
    const first = ref.current?.querySelector<HTMLElement>("textarea, input, select");
    first?.focus({ preventScroll: true });
    ref.current?.scrollIntoView({ block: "nearest" });
  }, []);
  return ref;
}
