// What the list is narrowed down to. The server searches, so that it finds what is not loaded.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { toolName, shortId } from "../format";
import type { Box } from "../router";
import * as store from "../store";
import { useStore, type Outcome } from "../store";
import { setFilters } from "./lists";
import { named } from "../shown";
import { kindOf } from "./row";

const PAUSE = 250;

export function FilterBar({ box, outcome, onOutcome }: { box: Box; outcome: Outcome; onOutcome: (outcome: Outcome) => void }) {
  const filters = useStore((state) => state.filters);
  const records = useStore((state) => state.records);
  const [text, setText] = useState(filters.q);
  const [open, setOpen] = useState(false);
  const timer = useRef(0);
  /** What was searched for last as this field says. */
  const sought = useRef(filters.q);
  // What is typed goes on while it is searched for, with the space before a pause, which is no part of it. Only what is
  // searched for otherwise, as nothing by "Clear", takes its place: before the next letter, which an effect after the
  // paint would take away.
  useLayoutEffect(() => {
    if (filters.q === sought.current) return;
    clearTimeout(timer.current);
    sought.current = filters.q;
    setText(filters.q);
  }, [filters.q]);
  const known = useMemo(() => {
    const found = { type: new Set<string>(), tool: new Set<string>(), agent: new Set<string>() };
    for (const record of records.values()) {
      found.type.add(record.type);
      const tool = toolName(record);
      if (tool !== null) found.tool.add(tool);
      // One that cannot be shown is in the list all the same.
      if (typeof record.agent === "string") found.agent.add(record.agent);
    }
    return found;
  }, [records]);
  const search = (value: string): void => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      sought.current = value.trim();
      setFilters({ q: sought.current });
    }, PAUSE);
  };
  const active = [filters.type, filters.tool, filters.agent, filters.session].filter((value) => value !== "").length;
  return (
    <div class="filters" role="search">
      <div class="find">
        <input id="search" type="search" placeholder="Search" aria-label="Search requests" maxLength={200} value={text} onInput={(event) => search(event.currentTarget.value)} />
        {box === "done" && (
          <select aria-label="Outcome" value={outcome} onChange={(event) => onOutcome(event.currentTarget.value as Outcome)}>
            <option value="resolved">Answered</option>
            <option value="expired">Expired</option>
            <option value="cancelled">Cancelled</option>
          </select>
        )}
        <button type="button" class="quiet" aria-expanded={open || active > 0} aria-controls="more-filters" onClick={() => setOpen(!open)}>
          Filter{active > 0 && ` (${active})`}
        </button>
      </div>
      <div id="more-filters" class="more" hidden={!open && active === 0}>
        <Pick label="Type" value={filters.type} all={known.type} name={kindOf} onPick={(type) => setFilters({ type })} />
        <Pick label="Tool" value={filters.tool} all={known.tool} onPick={(tool) => setFilters({ tool })} />
        <Pick label="Agent" value={filters.agent} all={known.agent} onPick={(agent) => setFilters({ agent })} />
        {filters.session !== "" && <button type="button" class="chip-button" onClick={() => setFilters({ session: "" })}>Session {shortId(filters.session)} ✕</button>}
        {(active > 0 || filters.q !== "") && <button type="button" class="link" onClick={() => setFilters(store.noFilters)}>Clear</button>}
      </div>
    </div>
  );
}

function Pick({ label, value, all, onPick, name = (it) => it }: { label: string; value: string; all: Set<string>; onPick: (value: string) => void; name?: (value: string) => string }) {
  const options = [...new Set([...all, ...(value === "" ? [] : [value])])].sort();
  return (
    <select aria-label={label} value={value} onChange={(event) => onPick(event.currentTarget.value)}>
      <option value="">{label}: any</option>
      {options.map((option) => <option value={option}>{named(name(option))}</option>)}
    </select>
  );
}
