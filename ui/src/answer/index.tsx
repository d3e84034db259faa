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
import { draftOf, keepDraft, type Draft } from "./drafts";
import { OutcomeForm } from "./outcome";
import { Questions } from "./questions";

export interface AnswerProps {
  record: Interrupt;
  /** Holds the answer, to be sent in a few seconds. */
  give: (value: Json, label: string, detail?: string) => void;
  draft: Draft;
  setDraft: (change: Partial<Draft>) => void;
  /** What the server found wrong with an answer before. */
  refused: { path: (string | number)[]; text: string }[];
  /** Whether the page's keys mean this request. */
  keys: boolean;
}

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
  const refused = (problems ?? []).map((one) => ({ path: one.loc, text: one.msg }));
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

function Form(props: AnswerProps) {
  const { record } = props;
  if (record.type === "tool_approval") return <Approval {...props} />;
  if (record.type === "unknown_outcome") return <OutcomeForm {...props} />;
  if (questions(record).length > 0) return <Questions {...props} />;
  return <Custom {...props} />;
}
