// The keys of the page.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { keysAreOn, turnKeys } from "../keys";
import * as store from "../store";

const keys: [string, string][] = [
  ["j k", "next and previous in the list"],
  ["a", "approve"],
  ["r", "reject, with a reason"],
  ["e", "edit the arguments"],
  ["s", "decide for the rest of the session"],
  ["c", "claim or release"],
  ["u", "undo the last answer, as long as it is not sent"],
  ["x", "select, to decide several together"],
  ["/", "search"],
  ["1 2 3", "needs you, waiting, done"],
  ["g", "between inbox and sessions"],
  ["n", "new session, among the sessions"],
  ["Esc", "back"],
  ["?", "this list"],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const [on, setOn] = useState(keysAreOn);
  const turn = (wanted: boolean): void => {
    turnKeys(wanted);
    setOn(wanted);
  };
  return (
    <dialog ref={dialog} onClose={() => store.set({ help: false })} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {keys.map(([key, about]) => (
          <div key={key}>
            <dt>{key.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
      <label class="always">
        <input type="checkbox" checked={on} onChange={(event) => turn(event.currentTarget.checked)} />
        <span>Single letters are keys of this page<small>Without them everything is done with buttons and Tab. This browser keeps the choice.</small></span>
      </label>
      <div class="buttons"><button type="button" autoFocus onClick={() => dialog.current?.close()}>Close</button></div>
    </dialog>
  );
}
