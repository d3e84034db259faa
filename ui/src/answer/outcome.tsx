// A crash hit a step that must not run twice: a person finds out what came of it.

import { title, toolName } from "../format";
import { Broken, JsonField, TypedIn, useBrokenFields, useTypedIn } from "./form";
import type { AnswerProps } from "./props";

const choices = [
  ["done", "It was done", "The agent goes on with the result that you give."],
  ["not_done", "It was not done", "It runs now."],
  ["failed", "It failed", "The agent is told that it failed, and why."],
] as const;

export function OutcomeForm({ record, give, draft, setDraft, refused }: AnswerProps) {
  const [broken, report] = useBrokenFields();
  const typed = useTypedIn(draft, setDraft);
  const chosen = draft.outcome;
  const ready = chosen !== undefined && !broken && (chosen !== "failed" || (draft.reason ?? "").trim() !== "");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (!ready) return;
    const name = toolName(record) ?? title(record);
    if (chosen === "done") give({ outcome: "done", result: draft.value ?? null }, `Said that ${name} was done`);
    else if (chosen === "failed") give({ outcome: "failed", message: (draft.reason ?? "").trim() }, `Said that ${name} failed`);
    else give({ outcome: "not_done" }, `Said that ${name} was not done; it runs now`);
  };
  return (
    <form class="editing" onSubmit={submit}>
      <p>The process died while this ran. Look where it has its effect before you answer: it must not happen twice.</p>
      <fieldset class="ask">
        <legend class="spoken">What came of it?</legend>
        <div class="options">
          {choices.map(([value, label, about]) => (
            <label class="option">
              <input type="radio" name={`outcome-${record.interrupt_id}`} checked={chosen === value} onChange={() => setDraft({ outcome: value })} />
              <span><strong>{label}</strong><small>{about}</small></span>
            </label>
          ))}
        </div>
      </fieldset>
      <Broken.Provider value={report}><TypedIn.Provider value={typed}>
        {chosen === "done" && <JsonField value={draft.value ?? null} onChange={(value) => setDraft({ value: value })} wrong={refused} path={["result"]} label="Its result" required />}
      </TypedIn.Provider></Broken.Provider>
      {chosen === "failed" && (
        <div class="field">
          <label for={`failed-${record.interrupt_id}`}>What went wrong</label>
          <textarea id={`failed-${record.interrupt_id}`} rows={2} value={draft.reason ?? ""} onInput={(event) => setDraft({ reason: event.currentTarget.value })} />
        </div>
      )}
      <div class="buttons"><button type="submit" class="primary" disabled={!ready}>Answer</button></div>
    </form>
  );
}
