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
import { useFrozen } from "./begun";
import { keepDraft, useDraft, useRounds, type Draft } from "./drafts";
import { OutcomeForm } from "./outcome";
import type { AnswerProps } from "./props";
import { dropHasty, isHasty, moveOn } from "./hasty";
import { Questions } from "./questions";

interface AnswerOptions {
  record: Interrupt;
  onGiven?: (() => void) | undefined;
  keys?: boolean;
  /** Given where it is settled, and only what was begun is left to see: what would change it leaves it. */
  onLeave?: (() => void) | undefined;
}

export function Answer({ record, onGiven, keys = true, onLeave }: AnswerOptions) {
  const id = record.interrupt_id;
  const draft = useDraft(id);
  const round = useRounds();
  const box = useFrozen(onLeave !== undefined);
  const me = useStore((state) => state.me);
  const problems = useStore((state) => state.problems.get(id));
  const setDraft = useCallback((change: Partial<Draft>) => {
    if (onLeave === undefined) keepDraft(id, change);
    else onLeave();
  }, [id, onLeave]);
  const give = useCallback((value: Json, label: string, detail?: string) => {
    if (onLeave !== undefined || isHasty()) return;
    if (!hold([{ id, value }], label, { detail })) return;
    moveOn(onGiven !== undefined);
    onGiven?.();
  }, [id, onGiven, onLeave]);
  const reason = onLeave === undefined ? whyNot(record, me) : null;
  if (reason !== null) return <p class="note"><Plain text={reason} /></p>;
  const refused = (problems ?? []).map((one) => ({ path: within(one.loc), text: one.msg }));
  const props: AnswerProps = { record, give, draft, setDraft, refused, keys: keys && onLeave === undefined };
  return (
    <div class="answer" ref={box} onClickCapture={dropHasty}>
      {refused.length > 0 && (
        <div class="note bad" role="alert">
          The server did not take the answer:
          <ul>{refused.map((one) => <li>{one.path.length > 0 && <code><Plain text={one.path.join(".")} /></code>} <Plain text={one.text} /></li>)}</ul>
        </div>
      )}
      <Form key={round} {...props} />
    </div>
  );
}

/** The way that is always there: any JSON, which the server checks. */
export function AnswerAsJson(props: { record: Interrupt; onGiven: () => void }) {
  return <AnyJson key={useRounds()} {...props} />;
}

function AnyJson({ record, onGiven }: { record: Interrupt; onGiven: () => void }) {
  const [value, setValue] = useState<Json | undefined>(undefined);
  const [broken, report] = useBrokenFields();
  const submit = (event: Event): void => {
    event.preventDefault();
    if (broken || value === undefined || isHasty() || !hold([{ id: record.interrupt_id, value }], "Answered")) return;
    moveOn(true);
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
