// What somebody had begun when a request was settled: it stays in sight until they leave it, and can be copied.

import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { isTyping, useKeys } from "../keys";
import type { Interrupt } from "../types";
import * as store from "../store";
import { draftOf, forgetDraft, isBegun, useDraft } from "./drafts";

export interface Begun {
  /** Where its form stands. */
  place: RefObject<HTMLElement | null>;
  /** Whether the form is kept although nobody can answer any more. */
  isKept: boolean;
  leave: () => void;
}

/** Without its form the focus would be nowhere, and what one goes on typing would be keys of the page. */
export function useBegun(record: Interrupt, isHeld: boolean, onLeft: () => void = () => undefined): Begun {
  const id = record.interrupt_id;
  const place = useRef<HTMLElement>(null);
  const draft = useDraft(id);
  const wasOpen = useRef(false);
  const hadFocus = useRef(false);
  const [, again] = useState({});
  const isOpen = record.status === "pending" && !isHeld;
  // Asked while the form is still there.
  if (isOpen) hadFocus.current = false;
  else if (wasOpen.current && !isHeld) hadFocus.current = isTypedIn(place.current);
  useLayoutEffect(() => {
    wasOpen.current = isOpen;
  });
  const isKept = record.status !== "pending" && !isHeld && (hadFocus.current || isBegun(draft));
  const leave = (): void => {
    hadFocus.current = false;
    forgetDraft(id);
    again({});
    onLeft();
  };
  useKeys(isKept ? { Escape: leave } : {});
  return { place, isKept, leave };
}

/** Whether somebody is about to type in the form that stands there. */
function isTypedIn(place: HTMLElement | null): boolean {
  const focused = document.activeElement;
  return isTyping(focused) && place?.querySelector(".answer")?.contains(focused) === true;
}

/** The open requests of a session, and those that were, of which somebody has begun an answer: until they leave it. */
export function useCards(open: readonly Interrupt[]): { cards: readonly Interrupt[]; onLeft: () => void } {
  const before = useRef<readonly Interrupt[]>([]);
  const [, again] = useState({});
  const { held } = store.get();
  const isInUse = ({ interrupt_id: id }: Interrupt): boolean => !held.has(id) && (isBegun(draftOf(id)) || isTypedIn(document.getElementById(cardOf(id))));
  const rest = before.current.filter((one) => open.every((other) => other.interrupt_id !== one.interrupt_id) && isInUse(one));
  const cards = [...open, ...rest].sort((one, other) => (one.interrupt_id < other.interrupt_id ? -1 : 1));
  useLayoutEffect(() => {
    before.current = cards;
  });
  return { cards, onLeft: () => again({}) };
}

export const cardOf = (id: string): string => `card-${id}`;

/** Lets nothing in it be changed or pressed. What has the focus keeps it. */
export function useFrozen(isFrozen: boolean): RefObject<HTMLDivElement | null> {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const fields = isFrozen ? (box.current?.querySelectorAll<HTMLElement>("textarea, input, select, button") ?? []) : [];
    for (const field of fields) {
      if (field instanceof HTMLTextAreaElement || (field instanceof HTMLInputElement && isTyping(field))) field.readOnly = true;
      else if (field !== document.activeElement) (field as HTMLInputElement).disabled = true;
    }
  });
  return box;
}
