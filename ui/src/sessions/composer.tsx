// The next message: its words, and the files that go with it.

import { useEffect, useRef, useState } from "preact/hooks";
import { api, Problem } from "../api";
import { announce, failed } from "../shell/notices";
import { Plain } from "../shown";
import * as store from "../store";
import type { Message } from "../types";
import { Drawn } from "./attached";
import { lengthWith, messageWith, read, roomIn, sized, type Chosen } from "./files";

/** `onSent` is told what is on its way, and nothing once it did not arrive. */
export function Composer({ id, busy, asked, onSent }: { id: string; busy: boolean; asked: boolean; onSent: (message: Message | null) => void }) {
  const [text, setText] = useState("");
  const [sending, setSending] = useState(false);
  const [chosen, setChosen] = useState<Chosen[]>([]);
  const [problems, setProblems] = useState<string[]>([]);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const attach = useRef<HTMLButtonElement>(null);
  // What is chosen now: files are read one after the other, while others are taken away.
  const now = useRef<Chosen[]>([]);
  const choose = (all: Chosen[]): void => setChosen((now.current = all));
  const add = async (files: Iterable<File>): Promise<void> => {
    const wrong: string[] = [];
    setProblems(wrong);
    for (const file of files) {
      const refused = await take(file, now.current, area.current?.value ?? "", (one) => choose([...now.current, one]));
      if (refused !== null) wrong.push(refused);
      else announce(`Attached ${file.name}`);
    }
    setProblems([...wrong]);
  };
  const isOver = useDropped((files) => void add(files));
  const remove = (one: Chosen): void => {
    choose(now.current.filter((other) => other !== one));
    setProblems([]);
    announce(`Removed ${one.name}`);
    // Its button is gone, and the focus would be nowhere.
    attach.current?.focus();
  };
  useEffect(() => {
    if (!busy) area.current?.focus({ preventScroll: true });
  }, [busy]);
  const content = text.trim();
  const isNothing = content === "" && chosen.length === 0;
  const send = (event: Event): void => {
    event.preventDefault();
    if (isNothing || busy || sending) return;
    const length = lengthWith(content, chosen);
    if (length > most()) {
      setProblems([`The message is too large: ${length.toLocaleString()} bytes with its files, of ${most().toLocaleString()} at most. Take a file out or say less; the server’s --max-body sets how much it takes.`]);
      return;
    }
    const message = messageWith(content, chosen);
    setProblems([]);
    setSending(true);
    onSent(message as unknown as Message);
    api.send(id, message).then(() => {
      setText("");
      choose(now.current.filter((one) => !chosen.includes(one)));
    }).catch((error: unknown) => {
      onSent(null);
      if (!(error instanceof Problem)) throw error;
      // A proxy may take less than the server does, and says so in words of its own.
      if (error.status === 413) setProblems([`The message is too large for the server, or for a proxy before it: ${error.message}`]);
      else failed(error);
    }).finally(() => setSending(false));
  };
  return (
    <form class="composer" onSubmit={send}>
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
        onInput={(event) => setText(event.currentTarget.value)}
        onPaste={(event) => {
          // What is copied from a table is text, and a picture of it.
          const pasted = event.clipboardData;
          if (pasted === null || pasted.files.length === 0 || pasted.types.includes("text/plain")) return;
          event.preventDefault();
          void add([...pasted.files]);
        }}
        onKeyDown={(event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && send(event)} />
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

/** Takes a file, or says why not: whoever is told after a long upload has waited for nothing. */
async function take(file: File, chosen: Chosen[], content: string, onTaken: (one: Chosen) => void): Promise<string | null> {
  if (file.size === 0) return `${file.name} is empty, and not attached.`;
  const room = roomIn(most());
  const taken = chosen.reduce((sum, one) => sum + one.bytes, 0);
  const tooLarge = `${file.name} has ${sized(file.size)} and is not attached: a message to this server has room for ${sized(room)} of files${taken === 0 ? "" : `, of which ${sized(taken)} are taken`}. The server’s --max-body sets how much it takes.`;
  if (file.size > room) return tooLarge;
  let one: Chosen;
  try {
    one = await read(file);
  } catch (error) {
    return `${file.name} cannot be read, and is not attached; folders cannot be. ${error instanceof Error ? error.message : String(error)}`;
  }
  if (lengthWith(content, [...chosen, one]) > most()) return tooLarge;
  onTaken(one);
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
