// The inbox: a list, and what is asked beside it; on a phone one or the other.

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { useNow } from "../clock";
import { counted } from "../format";
import { useKeys } from "../keys";
import { go, write, type Box } from "../router";
import { startSession } from "../sessions";
import { Guard } from "../shell/guard";
import { Loading } from "../shell/loading";
import { Virtual } from "../shell/virtual";
import * as store from "../store";
import { useStore } from "../store";
import { Bulk } from "./bulk";
import { Detail } from "./detail";
import { FilterBar } from "./filters";
import { idsOf, leaveDone, loadDone, loadMore, loadPending, setFilters, setOutcome } from "./lists";
import { Row, UnshownRow } from "./row";
import { Welcome } from "./welcome";

const ROW = 72;
const names: Record<Box, string> = { needs: "Needs you", waiting: "Waiting", done: "Done" };
const boxes: Box[] = ["needs", "waiting", "done"];

export function Inbox({ box, id }: { box: Box; id: string | null }) {
  const state = useStore((all) => all);
  const now = useNow();
  const ids = useMemo(() => idsOf(box, state, now), [box, now, state.pending, state.done, state.records, state.held, state.outcome, state.me]);
  const counts = useMemo(
    () => ({ needs: idsOf("needs", state, now).length, waiting: idsOf("waiting", state, now).length }),
    [now, state.pending, state.records, state.held, state.me],
  );
  const which = box === "done" ? "done" : "pending";
  const loaded = state[which];
  useEffect(() => {
    if (box !== "done") return;
    void loadDone();
    return leaveDone;
  }, [box]);

  const open = (next: string | null): void => go({ page: "inbox", box, id: next }, id !== null && next !== null);
  const move = (by: number): void => {
    const at = id === null ? -1 : ids.indexOf(id);
    const next = ids[at < 0 ? (by > 0 ? 0 : ids.length - 1) : Math.min(ids.length - 1, Math.max(0, at + by))];
    if (next !== undefined) open(next);
  };
  const select = (one: string): void => {
    const selected = new Set(state.selected);
    if (!selected.delete(one)) selected.add(one);
    store.set({ selected });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    x: () => id !== null && box === "needs" && select(id),
    "/": () => document.getElementById("search")?.focus(),
    1: () => go({ page: "inbox", box: "needs", id: null }),
    2: () => go({ page: "inbox", box: "waiting", id: null }),
    3: () => go({ page: "inbox", box: "done", id: null }),
    Escape: () => {
      const active = document.activeElement;
      if (active instanceof HTMLElement && active.matches("input, textarea, select")) active.blur();
      else if (state.selected.size > 0) store.set({ selected: new Set() });
      else if (id !== null) open(null);
    },
  });
  // The button that was pressed is gone, and the focus with it: it goes on where the eyes go.
  const goOn = useRef(false);
  const main = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    if (!goOn.current) return;
    goOn.current = false;
    (main.current?.querySelector<HTMLElement>("h1") ?? main.current)?.focus({ preventScroll: true });
  }, [id]);
  // The one after what was just answered; on a narrow screen, back to the list.
  const onGiven = (): void => {
    if (matchMedia("(max-width: 760px)").matches) return go({ page: "inbox", box, id: null }, true);
    const at = id === null ? -1 : ids.indexOf(id);
    goOn.current = true;
    go({ page: "inbox", box, id: ids[at + 1] ?? ids[at - 1] ?? null }, true);
  };
  const canSend = state.me === null || state.me.scopes.some((scope) => scope === "send" || scope === "admin");
  const isFiltered = Object.values(state.filters).some((value) => value !== "");
  // Nothing waits, for anybody, as far as the server says.
  const isQuiet = state.pending.loaded && state.pending.failed === null && state.pending.next === null && !isFiltered && counts.needs + counts.waiting === 0;
  const count = (one: Box): string => {
    if (one === "done") return "";
    const more = state.pending.next !== null ? "+" : "";
    return counts[one] === 0 && more === "" ? "" : `${counts[one].toLocaleString()}${more}`;
  };
  return (
    <div class={id === null ? "split" : "split opened"}>
      <section class="side" aria-label="Requests">
        <nav class="boxes" aria-label="Boxes">
          {boxes.map((one) => (
            <a key={one} href={write({ page: "inbox", box: one, id: null })} aria-current={one === box ? "page" : undefined}>
              {names[one]} {count(one) !== "" && <span class="count">{count(one)}</span>}
            </a>
          ))}
        </nav>
        <FilterBar box={box} outcome={state.outcome} onOutcome={setOutcome} />
        {state.selected.size > 0 && box === "needs" && <Bulk />}
        <Virtual
          ids={ids} height={ROW} current={id} label={names[box]}
          row={(one) => (
            <Guard key={one} instead={<UnshownRow id={one} box={box} />}>
              <Row id={one} box={box} now={now} isCurrent={one === id} isSelected={state.selected.has(one)} onSelect={box === "needs" ? select : null} />
            </Guard>
          )}
          more={loaded.loading || loaded.failed !== null ? null : loaded.next}
          onEnd={() => void loadMore(which)}
          empty={<Empty box={box} isQuiet={isQuiet} canSend={canSend} />}
          foot={
            <div class="foot" role="status">
              {loaded.failed !== null ? (
                <>
                  <p class="wrong">{loaded.failed}</p>
                  <button type="button" onClick={() => void (box === "done" ? loadDone() : loadPending())}>Try again</button>
                </>
              ) : loaded.loading && ids.length > 0 ? <p class="muted">Loading…</p> : ids.length > 20 && loaded.next === null ? <p class="muted">{counted(ids.length, "request")}, all of them</p> : null}
            </div>
          }
        />
      </section>
      <section class="main" aria-label="Request" ref={main} tabIndex={-1}>
        {id === null ? <Nothing box={box} waiting={counts.needs} isQuiet={isQuiet} canSend={canSend} /> : <Detail key={id} id={id} box={box} onGiven={onGiven} />}
      </section>
    </div>
  );
}

function Empty({ box, isQuiet, canSend }: { box: Box; isQuiet: boolean; canSend: boolean }) {
  const { loading, loaded, next, failed } = useStore((state) => (box === "done" ? state.done : state.pending));
  const filters = useStore((state) => state.filters);
  if (failed !== null) return null;
  // Later pages may have what this box is for.
  if (loading || !loaded || next !== null) return <Loading what="The list" />;
  if (Object.values(filters).some((value) => value !== "")) return <p class="empty"><strong>Nothing here fits the filters.</strong><button type="button" class="link" onClick={() => setFilters(store.noFilters)}>Clear them</button></p>;
  if (box === "needs") {
    return (
      <div class="empty">
        <p><strong>Nothing needs you.</strong>{!isQuiet && "What agents ask appears here by itself."}</p>
        {isQuiet && <Welcome canSend={canSend} onStart={() => void startSession()} />}
      </div>
    );
  }
  if (box === "waiting") return <p class="empty"><strong>Nothing waits elsewhere.</strong>Here is what somebody snoozed or claimed, and what only others may answer.</p>;
  return <p class="empty"><strong>Nothing yet.</strong>What was answered, expired or was cancelled stays here.</p>;
}

function Nothing({ box, waiting, isQuiet, canSend }: { box: Box; waiting: number; isQuiet: boolean; canSend: boolean }) {
  if (box === "needs" && isQuiet) {
    return <div class="nothing first"><h1>Where agents wait for people</h1><Welcome canSend={canSend} onStart={() => void startSession()} /></div>;
  }
  return (
    <div class="nothing">
      <p>{box === "needs" && waiting > 0 ? `${counted(waiting, "request")} ${waiting === 1 ? "needs" : "need"} you.` : "No request is open."}</p>
      <p class="muted"><kbd>j</kbd> and <kbd>k</kbd> move, <kbd>?</kbd> lists the other keys.</p>
    </div>
  );
}
