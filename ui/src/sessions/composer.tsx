// The next message: its words, and the files that go with it.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, Problem } from "../api";
import { isComposing } from "../keys";
import { announce, failed, notify } from "../shell/notices";
import { Plain } from "../shown";
import * as store from "../store";
import type { Message } from "../types";
import { Drawn } from "./attached";
import { attemptOf, draftOf, keepDraft, useDraft, type Draft } from "./drafts";
import { lengthWith, messageWith, read, roomIn, sized, type Chosen } from "./files";

/** `said`: how many messages people have sent, where that is known. `onSent` is told what is on its way, and nothing once it did not arrive. */
export function Composer({ id, busy, asked, said, onSent }: { id: string; busy: boolean; asked: boolean; said: number | null; onSent: (message: Message | null) => void }) {
  const { text, chosen, problems, sending } = useDraft(id);
  const keep = (change: Partial<Draft>): void => keepDraft(id, change);
  const area = useRef<HTMLTextAreaElement>(null);
  const form = useRef<HTMLFormElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const attach = useRef<HTMLButtonElement>(null);
  const add = async (files: Iterable<File>): Promise<void> => {
    const wrong: string[] = [];
    keep({ problems: [] });
    for (const file of files) {
      const refused = await take(file, id);
      if (refused !== null) wrong.push(refused);
      else announce(`Attached ${file.name}`);
    }
    keep({ problems: wrong });
  };
  const isOver = useDropped((files) => void add(files));
  const remove = (one: Chosen): void => {
    keep({ chosen: chosen.filter((other) => other !== one), problems: [] });
    announce(`Removed ${one.name}`);
    // Its button is gone, and the focus would be nowhere.
    attach.current?.focus();
  };
  // Whoever comes here wants to write, unless they do so elsewhere already: a session may take a while to load.
  useEffect(() => {
    if (!busy && !isWriting(document.activeElement)) area.current?.focus({ preventScroll: true });
  }, []);
  // A turn ends while a person may be anywhere. Only a focus that is nowhere is taken: that of the answer just given is gone with its request.
  const wasBusy = useRef(busy);
  useEffect(() => {
    const active = document.activeElement;
    if (wasBusy.current && !busy && (active === null || active === document.body || form.current?.contains(active))) area.current?.focus({ preventScroll: true });
    wasBusy.current = busy;
  }, [busy]);
  useHeightOf(form);
  const content = text.trim();
  const isNothing = content === "" && chosen.length === 0;
  const send = (event: Event): void => {
    event.preventDefault();
    if (isNothing || busy || sending) return;
    const length = lengthWith(content, chosen);
    if (length > most()) {
      keep({ problems: [`The message is too large: ${length.toLocaleString()} bytes with its files, of ${most().toLocaleString()} at most. Take a file out or say less; the server’s --max-body sets how much it takes.`] });
      return;
    }
    const message = messageWith(content, chosen);
    const attempt = attemptOf(draftOf(id).attempt, content, chosen, said);
    keep({ problems: [], sending: true, attempt });
    onSent(message as unknown as Message);
    api.send(id, message, attempt.key).then(() => {
      // What was written and chosen meanwhile is the next message.
      const now = draftOf(id);
      keep({ text: now.text === text ? "" : now.text, chosen: now.chosen.filter((one) => !chosen.includes(one)), attempt: null });
    }).catch((error: unknown) => {
      onSent(null);
      if (!(error instanceof Problem)) throw error;
      // A proxy may take less than the server does, and says so in words of its own.
      if (error.status === 413) keep({ problems: [`The message is too large for the server, or for a proxy before it: ${error.message}`] });
      else if (error.isUnsure) notify(`The message may not have been sent: ${error.message}. Send it again as it is, and it is taken once.`, "bad");
      else failed(error);
    }).finally(() => keep({ sending: false }));
  };
  return (
    <form class="composer" ref={form} onSubmit={send}>
      {problems.length > 0 && <div class="wrong" role="alert">{problems.map((problem) => <p key={problem}><Plain text={problem} /></p>)}</div>}
      {chosen.length > 0 && (
        <ul class="chosen" aria-label="Goes with the message">
          {chosen.map((one, index) => (
            <li key={index}>
              <Drawn attachment={one} alt="" />
              <span><Plain text={one.name} /> <span class="muted">{sized(one.bytes)}</span></span>
              <button type="button" class="quiet" aria-label={`Remove ${one.name}`} disabled={sending} onClick={() => remove(one)}>✕</button>
            </li>
          ))}
        </ul>
      )}
      <textarea ref={area} rows={2} value={text} aria-label="Message" placeholder={asked ? "First answer what is asked." : busy ? "The agent is at it." : "Message"}
        onInput={(event) => keep({ text: event.currentTarget.value })}
        onPaste={(event) => {
          // What is copied from a table is text, and a picture of it.
          const pasted = event.clipboardData;
          if (pasted === null || pasted.files.length === 0 || pasted.types.includes("text/plain")) return;
          event.preventDefault();
          void add([...pasted.files]);
        }}
        onKeyDown={(event) => event.key === "Enter" && !event.shiftKey && !isComposing(event) && send(event)} />
      <input ref={picker} type="file" multiple hidden onChange={(event) => {
        void add([...(event.currentTarget.files ?? [])]);
        // The same one can be chosen again.
        event.currentTarget.value = "";
      }} />
      <button ref={attach} type="button" aria-label="Attach files" title="Attach files; or drop them here, or paste them" onClick={() => picker.current?.click()}>
        +<span class="word"> Attach</span>
      </button>
      <button type="submit" class="primary" disabled={busy || sending || isNothing}>Send</button>
      {isOver && <p class="drop" aria-hidden="true">Drop the files to attach them.</p>}
    </form>
  );
}

/** The longest request that the server takes. */
const most = (): number => store.get().me?.max_body ?? Infinity;

/** Tells the page how high the composer is, which grows with its files: messages of the page stand above it, and not on its buttons. */
function useHeightOf(form: RefObject<HTMLFormElement | null>): void {
  useLayoutEffect(() => {
    const root = document.documentElement.style;
    const tell = (): void => root.setProperty("--composer", `${form.current?.offsetHeight ?? 0}px`);
    tell();
    const observer = new ResizeObserver(tell);
    if (form.current !== null) observer.observe(form.current);
    return () => {
      observer.disconnect();
      root.removeProperty("--composer");
    };
  }, []);
}

/** Whether something is written or chosen in it. */
function isWriting(element: Element | null): boolean {
  return element instanceof HTMLElement && (element.matches("input, textarea, select") || element.isContentEditable);
}

/** Takes a file into a draft, or says why not: whoever is told after a long upload has waited for nothing. */
async function take(file: File, id: string): Promise<string | null> {
  if (file.size === 0) return `${file.name} is empty, and not attached.`;
  const room = roomIn(most());
  const taken = draftOf(id).chosen.reduce((sum, one) => sum + one.bytes, 0);
  const tooLarge = `${file.name} has ${sized(file.size)} and is not attached: a message to this server has room for ${sized(room)} of files${taken === 0 ? "" : `, of which ${sized(taken)} are taken`}. The server’s --max-body sets how much it takes.`;
  if (file.size > room) return tooLarge;
  let one: Chosen;
  try {
    one = await read(file);
  } catch (error) {
    return `${file.name} cannot be read, and is not attached; folders cannot be. ${error instanceof Error ? error.message : String(error)}`;
  }
  // Others may have been taken away while it was read.
  const { text, chosen } = draftOf(id);
  if (lengthWith(text.trim(), [...chosen, one]) > most()) return tooLarge;
  keepDraft(id, { chosen: [...chosen, one] });
  return null;
}

/** Whether files are held over the page. They may be dropped anywhere: beside the right place a browser would leave the page for them. */
function useDropped(onDropped: (files: File[]) => void): boolean {
  const [isOver, setOver] = useState(false);
  const dropped = useRef(onDropped);
  dropped.current = onDropped;
  useEffect(() => {
    const carried = (event: DragEvent): DataTransfer | null => (event.dataTransfer?.types.includes("Files") ? event.dataTransfer : null);
    const over = (event: DragEvent): void => {
      if (carried(event) === null) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent): void => void (event.relatedTarget === null && setOver(false));
    const drop = (event: DragEvent): void => {
      const files = carried(event)?.files;
      if (files === undefined) return;
      event.preventDefault();
      setOver(false);
      dropped.current([...files]);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  return isOver;
}
