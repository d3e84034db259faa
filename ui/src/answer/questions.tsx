// Questions with options: all of them on one page, each with room for another answer.

import { useId, useState } from "preact/hooks";
import { questions, type Question } from "../format";
import type { Json } from "../json";
import { Plain } from "../shown";
import type { AnswerProps } from "./props";

const OTHER = "\u0000other";

export function Questions({ record, give, draft, setDraft }: AnswerProps) {
  const asked = questions(record);
  const [tried, setTried] = useState(false);
  // Maps: a question may be called as a member that every object has.
  const chosen = draft.chosen ?? new Map<string, string[]>();
  const other = draft.other ?? new Map<string, string>();
  const answers = asked.map((one) => answerTo(one, chosen.get(one.question) ?? [], other.get(one.question) ?? ""));
  const missing = answers.filter((one) => one === null).length;
  const submit = (event: Event): void => {
    event.preventDefault();
    setTried(true);
    if (missing > 0) {
      // It may be out of sight, above.
      const ask = (event.currentTarget as HTMLElement).querySelectorAll("fieldset.ask")[answers.indexOf(null)];
      ask?.querySelector<HTMLElement>("input")?.focus();
      return;
    }
    const value = Object.fromEntries(asked.map((one, index) => [one.question, answers[index] as Json]));
    const said = answers.map((one) => (Array.isArray(one) ? one.join(", ") : one)).join(" · ");
    give({ answers: value }, asked.length === 1 ? "Answered the question" : `Answered ${asked.length} questions`, said);
  };
  return (
    <form class="questions" onSubmit={submit}>
      {asked.map((one, index) => (
        <Ask key={one.question} asked={one} alone={asked.length === 1} missing={tried && answers[index] === null} chosen={chosen.get(one.question) ?? []} other={other.get(one.question) ?? ""}
          onChoose={(labels) => setDraft({ chosen: new Map(chosen).set(one.question, labels) })}
          onOther={(text) => setDraft({ other: new Map(other).set(one.question, text) })} />
      ))}
      <div class="buttons">
        <button type="submit" class="primary">Answer</button>
        <p class="muted" role="status">{tried && missing > 0 ? `${missing === 1 ? "One question has" : `${missing} questions have`} no answer yet.` : ""}</p>
      </div>
    </form>
  );
}

function answerTo(asked: Question, chosen: string[], other: string): string | string[] | null {
  const labels = asked.options.map((option) => option.label).filter((label) => chosen.includes(label));
  if (chosen.includes(OTHER)) {
    if (other.trim() === "") return null;
    labels.push(other.trim());
  }
  if (labels.length === 0) return null;
  return asked.multiple ? labels : (labels[0] ?? null);
}

interface AskProps {
  asked: Question;
  alone: boolean;
  missing: boolean;
  chosen: string[];
  other: string;
  onChoose: (labels: string[]) => void;
  onOther: (text: string) => void;
}

function Ask({ asked, alone, missing, chosen, other, onChoose, onOther }: AskProps) {
  const id = useId();
  const hasPreviews = asked.options.some((option) => option.preview !== null);
  const [looked, setLooked] = useState<string | null>(null);
  const shown = asked.options.find((option) => option.label === (looked ?? chosen[0])) ?? asked.options[0];
  const toggle = (label: string, on: boolean): void => {
    if (asked.multiple) onChoose(on ? [...chosen, label] : chosen.filter((one) => one !== label));
    else onChoose([label]);
  };
  const type = asked.multiple ? "checkbox" : "radio";
  return (
    <fieldset class="ask" aria-describedby={missing ? `${id}-missing` : undefined}>
      <legend class={alone ? "spoken" : ""}>
        {asked.header !== "" && <span class="tag"><Plain text={asked.header} /></span>} <Plain text={asked.question} />
      </legend>
      {asked.multiple && <p class="muted">Choose as many as apply.</p>}
      <div class={hasPreviews ? "with-preview" : ""}>
        <div class="options">
          {asked.options.map((option) => (
            <label class="option" onPointerEnter={() => setLooked(option.label)} onPointerLeave={() => setLooked(null)}>
              <input type={type} name={id} checked={chosen.includes(option.label)} onFocus={() => setLooked(option.label)} onBlur={() => setLooked(null)}
                onChange={(event) => toggle(option.label, event.currentTarget.checked)} />
              <span>
                <strong dir="auto"><Plain text={option.label} /></strong>
                {option.description !== "" && <small dir="auto"><Plain text={option.description} /></small>}
              </span>
            </label>
          ))}
          <label class="option">
            <input type={type} name={id} checked={chosen.includes(OTHER)} onChange={(event) => toggle(OTHER, event.currentTarget.checked)} />
            <span>
              <strong>Other</strong>
              <textarea class="other" rows={1} aria-label={`Another answer to: ${asked.question}`} placeholder="In your own words" value={other}
                onInput={(event) => {
                  onOther(event.currentTarget.value);
                  if (!chosen.includes(OTHER)) toggle(OTHER, true);
                }} />
            </span>
          </label>
        </div>
        {hasPreviews && (
          <pre class="preview" aria-live="off" aria-label={`Preview of ${shown?.label ?? ""}`} tabIndex={0}>
            <span class="muted"><Plain text={shown?.label ?? ""} />{"\n\n"}</span>
            {shown?.preview != null ? <Plain text={shown.preview} /> : <span class="muted">No preview</span>}
          </pre>
        )}
      </div>
      {missing && <p class="wrong" id={`${id}-missing`}>Choose an answer, or write one.</p>}
    </fieldset>
  );
}
