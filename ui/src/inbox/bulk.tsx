// Several requests at once, if they are alike: the same tool of the same agent.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { keepDraft, TOGETHER, useDraft } from "../answer/drafts";
import { RuleFailed } from "../failed";
import { argsOf, counted, title } from "../format";
import { Plain, Value } from "../shown";
import * as store from "../store";
import { useStore } from "../store";
import type { Interrupt } from "../types";
import { hold } from "./deciding";
import { idsOf } from "./lists";

const likeness = (record: Interrupt): string => JSON.stringify([record.type, title(record), record.agent, record.tool_source ?? null]);

export function Bulk() {
  const selected = useStore((state) => state.selected);
  const records = useStore((state) => state.records);
  const held = useStore((state) => state.held);
  const [asking, setAsking] = useState<"approve" | "reject" | null>(null);
  const chosen = [...selected].map((id) => records.get(id)).filter((one): one is Interrupt => one !== undefined && one.status === "pending" && !held.has(one.interrupt_id));
  const first = chosen[0];
  if (first === undefined) return null;
  const alike = chosen.every((one) => likeness(one) === likeness(first));
  const can = (kind: "approve" | "reject"): boolean => alike && chosen.every((one) => one.type === "tool_approval" && argsOf(one) !== undefined && one.allowed_decisions?.includes(kind));
  const selectLike = (): void => {
    const state = store.get();
    const like = idsOf("needs", state, Date.now()).filter((id) => {
      const record = state.records.get(id);
      return record !== undefined && likeness(record) === likeness(first);
    });
    store.set({ selected: new Set(like) });
  };
  return (
    <div class="bulk" role="region" aria-label="Selected requests">
      <strong>{chosen.length} selected</strong>
      <button type="button" class="primary" disabled={!can("approve")} onClick={() => setAsking("approve")}>Approve…</button>
      <button type="button" class="danger" disabled={!can("reject")} onClick={() => setAsking("reject")}>Reject…</button>
      <button type="button" class="link" onClick={selectLike}>All like this</button>
      <button type="button" class="link" onClick={() => store.set({ selected: new Set() })}>None</button>
      {!alike && <p class="muted">Only calls of the same tool by the same agent can be decided together.</p>}
      {alike && !can("approve") && !can("reject") && <p class="muted">These have to be answered one by one.</p>}
      {asking !== null && <Confirm kind={asking} records={chosen} onClose={() => setAsking(null)} />}
    </div>
  );
}

/** All arguments at a glance: nobody approves what they could not see. */
function Confirm({ kind, records, onClose }: { kind: "approve" | "reject"; records: Interrupt[]; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  // Kept until it was sent: an answer that is taken back, or not taken, is not written anew.
  const reason = useDraft(TOGETHER).reason ?? "";
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const name = records[0] === undefined ? "" : title(records[0]);
  const columns = [...new Set(records.flatMap((record) => Object.keys(argsOf(record) ?? {})))];
  const verb = kind === "approve" ? "Approve" : "Reject";
  const decide = (event: Event): void => {
    event.preventDefault();
    const why = reason.trim();
    const value = kind === "approve" ? { approved: true } : { approved: false, ...(why === "" ? {} : { reason: why }) };
    const answers = records.map((record) => ({ id: record.interrupt_id, value }));
    if (hold(answers, `${verb === "Approve" ? "Approved" : "Rejected"} ${counted(records.length, "call")} of ${name}`, { draft: TOGETHER })) onClose();
  };
  return (
    <dialog ref={dialog} class="wide" onClose={onClose} aria-labelledby="bulk-title">
      <form onSubmit={decide}>
        <h2 id="bulk-title">{verb} {counted(records.length, "call")} of <code><Plain text={name} /></code>?</h2>
        {records.map((record) => <RuleFailed key={record.interrupt_id} record={record} />)}
        <div class="scroll tall" tabIndex={0} role="group" aria-label="Arguments of each call">
          <table class="calls">
            <thead><tr>{columns.map((column) => <th scope="col"><Plain text={column} /></th>)}</tr></thead>
            <tbody>
              {records.map((record) => (
                <tr key={record.interrupt_id}>
                  {columns.map((column) => {
                    const args = argsOf(record) ?? {};
                    const value = Object.hasOwn(args, column) ? args[column] : undefined;
                    return <td>{value === undefined ? <span class="muted">absent</span> : <Value value={value} />}</td>;
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {kind === "reject" && (
          <div class="field">
            <label for="bulk-reason">Why not? <span class="muted">optional; each agent is told</span></label>
            <textarea id="bulk-reason" rows={2} value={reason} onInput={(event) => keepDraft(TOGETHER, { reason: event.currentTarget.value })} />
          </div>
        )}
        <div class="buttons">
          <button type="submit" class={kind === "approve" ? "primary" : "danger solid"}>{verb} {records.length}</button>
          <button type="button" onClick={onClose}>Cancel</button>
        </div>
      </form>
    </dialog>
  );
}
