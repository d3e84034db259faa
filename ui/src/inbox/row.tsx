// One request in the list.

import { age, decider, left, lineOf, outcome, outcomeTone, shortAge, summary, title } from "../format";
import { toInterrupt, type Box } from "../router";
import { Plain } from "../shown";
import { useStore } from "../store";
import { snoozedUntil, whyNot } from "./lists";

interface RowProps {
  id: string;
  box: Box;
  now: number;
  isCurrent: boolean;
  isSelected: boolean;
  onSelect: ((id: string) => void) | null;
}

const kinds = new Map([["tool_approval", "Approval"], ["user_input", "Question"], ["unknown_outcome", "Outcome"]]);

export function kindOf(type: string): string {
  return kinds.get(type) ?? type.replace(/_/g, " ");
}

/** What kind of request it is. The type is the agent's word: of those that are not ours none is a class of the page. */
export function Kind({ type }: { type: string }) {
  return <span class={kinds.has(type) ? `kind ${type}` : "kind"}><Plain text={kindOf(type)} /></span>;
}

/** A row whose record cannot be shown; the request itself still can. */
export function UnshownRow({ id, box }: Pick<RowProps, "id" | "box">) {
  return <div class="row"><a class="open" href={toInterrupt(id, box)}><span class="name">A request that cannot be shown here</span></a></div>;
}

export function Row({ id, box, now, isCurrent, isSelected, onSelect }: RowProps) {
  const record = useStore((state) => state.records.get(id));
  const me = useStore((state) => state.me);
  if (record === undefined) return null;
  const time = record.status === "pending" && record.expires_at !== null ? left(record.expires_at, now) : null;
  const snoozed = snoozedUntil(record, now);
  const who = decider(record);
  return (
    <div class={`row ${isCurrent ? "current" : ""} ${isSelected ? "selected" : ""}`}>
      {onSelect !== null && (
        <label class="pick">
          <input type="checkbox" checked={isSelected} onChange={() => onSelect(id)} aria-label={`Select ${title(record)}`} />
        </label>
      )}
      <a class="open" href={toInterrupt(id, box)} aria-current={isCurrent ? "true" : undefined} tabIndex={isCurrent || isSelected ? 0 : undefined}>
        <span class="line">
          <span class={`name ${record.type === "tool_approval" ? "mono" : ""}`} dir="auto"><Plain text={lineOf(title(record))} /></span>
          <time dateTime={record.created_at} title={age(record.created_at, now)}>{shortAge(record.created_at, now)}</time>
        </span>
        <span class="summary" dir="auto"><Plain text={lineOf(summary(record)) || "\u00a0"} /></span>
        <span class="facts">
          <Kind type={record.type} />
          {record.agent !== null && <span><Plain text={record.agent} /></span>}
          {record.status === "pending" && record.rule_failed != null && <span class="urgent">a rule could not tell</span>}
          {time !== null && <span class={time.urgent ? "urgent" : ""}>{time.text}</span>}
          {snoozed !== null && <span>snoozed, {left(snoozed, now).text}</span>}
          {record.status === "pending" && record.claimed_by && record.claimed_until && Date.parse(record.claimed_until) > now && <span>with <Plain text={record.claimed_by} /></span>}
          {record.status === "pending" && whyNot(record, me) !== null && <span>not for you</span>}
          {record.status !== "pending" && <span class={`outcome ${outcomeTone(record)}`}>{outcome(record)}{who !== null && <> by <Plain text={who} /></>}</span>}
        </span>
      </a>
    </div>
  );
}
