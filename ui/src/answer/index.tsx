// The way to answer a request, whatever it is.

import { useCallback, useState } from "preact/hooks";
import { questions } from "../format";
import { hold } from "../inbox/deciding";
import { whyNot } from "../inbox/lists";
import type { Json } from "../json";
import { Plain } from "../shown";
import { useStore } from "../store";
import type { Interrupt } from "../types";
import { Approval } from "./approval";
import { Custom } from "./custom";
import { Broken, JsonField, useBrokenFields } from "./form";
import { draftOf, keepDraft, type Draft } from "./drafts";
import { OutcomeForm } from "./outcome";
import type { AnswerProps } from "./props";
import { Questions } from "./questions";

export function Answer({ record, onGiven, keys = true }: { record: Interrupt; onGiven?: () => void; keys?: boolean }) {
  const id = record.interrupt_id;
  const [draft, set] = useState<Draft>(() => draftOf(id));
  const me = useStore((state) => state.me);
  const problems = useStore((state) => state.problems.get(id));
  const setDraft = useCallback((change: Partial<Draft>) => {
    const next = { ...draftOf(id), ...change };
    keepDraft(id, next);
    set(next);
  }, [id]);
  const give = useCallback((value: Json, label: string, detail?: string) => {
    hold([{ id, value }], label, detail ?? null);
    onGiven?.();
  }, [id, onGiven]);
  const reason = whyNot(record, me);
  if (reason !== null) return <p class="note"><Plain text={reason} /></p>;
  const refused = (problems ?? []).map((one) => ({ path: within(one.loc), text: one.msg }));
  const props: AnswerProps = { record, give, draft, setDraft, refused, keys };
  return (
    <div class="answer">
      {refused.length > 0 && (
        <div class="note bad" role="alert">
          The server did not take the answer:
          <ul>{refused.map((one) => <li>{one.path.length > 0 && <code>{one.path.join(".")}</code>} {one.text}</li>)}</ul>
        </div>
      )}
      <Form {...props} />
    </div>
  );
}

/** The way that is always there: any JSON, which the server checks. */
export function AnswerAsJson({ record, onGiven }: { record: Interrupt; onGiven: () => void }) {
  const [value, setValue] = useState<Json | undefined>(undefined);
  const [broken, report] = useBrokenFields();
  const submit = (event: Event): void => {
    event.preventDefault();
    if (broken || value === undefined) return;
    hold([{ id: record.interrupt_id, value }], "Answered");
    onGiven();
  };
  return (
    <form class="editing" onSubmit={submit}>
      <Broken.Provider value={report}><JsonField value={value} onChange={setValue} wrong={[]} path={[]} label="Answer" required /></Broken.Provider>
      <div class="buttons"><button type="submit" class="primary" disabled={broken || value === undefined}>Answer</button></div>
    </form>
  );
}

/** A place in the request's body, as one in the answer. */
function within(loc: (string | number)[]): (string | number)[] {
  return loc[0] === "body" && loc[1] === "value" ? loc.slice(2) : loc;
}

function Form(props: AnswerProps) {
  const { record } = props;
  if (record.type === "tool_approval") return <Approval {...props} />;
  if (record.type === "unknown_outcome") return <OutcomeForm {...props} />;
  if (questions(record).length > 0) return <Questions {...props} />;
  return <Custom {...props} />;
}
