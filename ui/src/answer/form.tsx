// A form out of a JSON Schema. What it cannot show as fields, it shows as JSON; nothing is ever without a way to answer.

import { createContext } from "preact";
import { useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { equal, isObject, parse, RawNumber, write, type Json, type JsonObject } from "../json";
import type { Draft, Typed } from "./drafts";
import { blank, resolve, typesOf, type Wrong } from "../schema";
import { named, Plain } from "../shown";

export type Path = (string | number)[];

interface TypedFields {
  of: (field: string) => Typed | undefined;
  keep: (field: string, typed: Typed | undefined) => void;
}

/** What was typed in fields and is no value yet: kept in the draft, for fields go with their form. */
export const TypedIn = createContext<TypedFields>({ of: () => undefined, keep: () => undefined });

export function useTypedIn(draft: Draft, setDraft: (change: Partial<Draft>) => void): TypedFields {
  const now = useRef(draft.typed);
  now.current = draft.typed;
  return useMemo(() => ({
    of: (field) => now.current?.get(field),
    keep: (field, typed) => {
      if (typed === undefined && now.current?.has(field) !== true) return;
      const kept = new Map(now.current);
      if (typed === undefined) kept.delete(field);
      else kept.set(field, typed);
      now.current = kept;
      setDraft({ typed: kept });
    },
  }), [setDraft]);
}

/** A value as it is typed: 1.0 stays that while one goes on to 1.05. A value from outside replaces what was typed. */
function useTyped(value: Json | undefined, shown: (value: Json | undefined) => string, kept?: Typed): [string, (text: string, value: Json | undefined) => void] {
  const [typed, setTyped] = useState(() => (kept === undefined ? { text: shown(value), value } : { text: String(kept.shown), value: kept.value }));
  const text = equal(typed.value, value) ? typed.text : shown(value);
  return [text, (text, value) => setTyped({ text, value })];
}

/** Names for the entries of a list that stay with them when others are removed. */
function useKeys(length: number): { at: (index: number) => number; remove: (index: number) => void } {
  const keys = useRef<number[]>([]);
  const count = useRef(0);
  while (keys.current.length < length) keys.current.push(++count.current);
  keys.current.length = length;
  return { at: (index) => keys.current[index] ?? index, remove: (index) => void keys.current.splice(index, 1) };
}

/** Told which fields hold something that is no value yet: until it is mended, nothing may be sent. */
export const Broken = createContext<(field: string, broken: boolean) => void>(() => undefined);

function useBroken(field: string, broken: boolean): void {
  const report = useContext(Broken);
  // Before the next key: a form with a broken field is not sent.
  useLayoutEffect(() => {
    report(field, broken);
    return () => report(field, false);
  }, [field, broken]);
}

/** The listener for `Broken`, and whether any field is. */
export function useBrokenFields(): [boolean, (field: string, broken: boolean) => void] {
  const [fields, setFields] = useState<ReadonlySet<string>>(new Set());
  const [report] = useState(() => (field: string, broken: boolean): void =>
    setFields((before) => {
      if (before.has(field) === broken) return before;
      const after = new Set(before);
      if (broken) after.add(field);
      else after.delete(field);
      return after;
    }),
  );
  return [fields.size > 0, report];
}

interface FieldProps {
  schema: Json | undefined;
  root: Json;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  wrong: Wrong[];
  path: Path;
  label: string;
  required: boolean;
  depth?: number;
}

const same = (one: Path, other: Path): boolean => one.length === other.length && one.every((part, index) => part === other[index]);

function Errors({ id, wrong, path }: { id: string; wrong: Wrong[]; path: Path }) {
  const own = wrong.filter((one) => same(one.path, path));
  return <p class="wrong" id={id}><Plain text={own.map((one) => one.text).join("; ")} /></p>;
}

/** A schema of one type, or of one type and null. */
function simple(schema: Json | undefined, root: Json): { it: JsonObject; nullable: boolean } {
  const it = resolve(schema, root);
  const choices = Array.isArray(it["anyOf"]) ? it["anyOf"] : Array.isArray(it["oneOf"]) ? it["oneOf"] : null;
  if (choices !== null) {
    const rest = choices.map((one) => resolve(one, root)).filter((one) => one["type"] !== "null");
    const only = rest[0];
    if (rest.length === 1 && only !== undefined) {
      const { anyOf: _a, oneOf: _o, ...beside } = it;
      return { it: { ...only, ...beside }, nullable: choices.length > 1 };
    }
  }
  const types = typesOf(it);
  if (types.length === 2 && types.includes("null")) {
    return { it: { ...it, type: types.find((one) => one !== "null") ?? "null" }, nullable: true };
  }
  return { it, nullable: false };
}

/** Everything about one place of the value: its label, its control, and what is wrong with it. */
export function Field(props: FieldProps) {
  const { schema, root, value, depth = 0 } = props;
  const { it, nullable } = simple(schema, root);
  const type = typesOf(it).length === 1 ? typesOf(it)[0] : undefined;
  const fits = value === undefined || value === null;
  const inner = { ...props, it, nullable };
  if (Array.isArray(it["enum"])) return <Choice {...inner} options={it["enum"]} />;
  if (it["const"] !== undefined) return <Choice {...inner} options={[it["const"]]} />;
  if (type === "boolean" && (fits || typeof value === "boolean")) return <Choice {...inner} options={[true, false]} />;
  if (type === "string" && (fits || typeof value === "string")) return <TextField {...inner} />;
  if ((type === "integer" || type === "number") && (fits || typeof value !== "object" || value instanceof RawNumber)) {
    return <NumberField {...inner} />;
  }
  if (type === "array" && depth < 5 && it["prefixItems"] === undefined && (fits || Array.isArray(value))) return <ListField {...inner} />;
  if (type === "object" && depth < 5 && (fits || isObject(value))) {
    if (isObject(it["properties"])) return <ObjectField {...inner} />;
    if (isObject(it["additionalProperties"])) return <MapField {...inner} />;
  }
  return <JsonField {...inner} />;
}

interface InnerProps extends FieldProps {
  it: JsonObject;
  nullable: boolean;
}

function Label({ for: target, label, required, it }: { for: string; label: string; required: boolean; it: JsonObject }) {
  const about = typeof it["description"] === "string" ? it["description"] : null;
  return (
    <>
      <label for={target}><Plain text={label} />{!required && <span class="muted"> optional</span>}</label>
      {about !== null && <p class="about" id={`${target}-about`}><Plain text={about} /></p>}
    </>
  );
}

function describe(id: string, it: JsonObject): { "aria-describedby": string } {
  return { "aria-describedby": typeof it["description"] === "string" ? `${id}-about ${id}-wrong` : `${id}-wrong` };
}

function isWrong(wrong: Wrong[], path: Path): { "aria-invalid"?: "true" } {
  return wrong.some((one) => same(one.path, path)) ? { "aria-invalid": "true" } : {};
}

function TextField(props: InnerProps) {
  const { it, value, onChange, wrong, path, required, nullable } = props;
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const text = typeof value === "string" ? value : "";
  useEffect(() => {
    // As high as its text.
    const element = area.current;
    if (element !== null) {
      element.style.height = "auto";
      element.style.height = `${Math.min(element.scrollHeight + 2, 420)}px`;
    }
  }, [text]);
  const take = (entered: string): void => onChange(entered === "" && !required ? undefined : entered === "" && nullable ? null : entered);
  return (
    <div class="field">
      <Label for={id} label={props.label} required={required} it={it} />
      <textarea id={id} ref={area} rows={1} value={text} spellcheck={false} {...describe(id, it)} {...isWrong(wrong, path)}
        onInput={(event) => take(event.currentTarget.value)} />
      <Errors id={`${id}-wrong`} wrong={wrong} path={path} />
    </div>
  );
}

/** What was typed, as a number; a text that is none stays a text, which does not fit the schema. */
function readNumber(text: string): Json {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return text;
  return parse(text);
}

function NumberField(props: InnerProps) {
  const { it, value, onChange, wrong, path, required, nullable } = props;
  const id = useId();
  const [text, setText] = useTyped(value, (it) => (it === undefined || it === null ? "" : String(it)));
  const take = (entered: string): void => {
    const typed = entered.trim();
    const read = typed === "" ? (required && !nullable ? "" : nullable ? null : undefined) : readNumber(typed);
    setText(entered, read);
    onChange(read);
  };
  return (
    <div class="field">
      <Label for={id} label={props.label} required={required} it={it} />
      <input id={id} class="number" inputMode="decimal" autoComplete="off" value={text} {...describe(id, it)} {...isWrong(wrong, path)}
        onInput={(event) => take(event.currentTarget.value)} />
      <Errors id={`${id}-wrong`} wrong={wrong} path={path} />
    </div>
  );
}

function nameOf(option: Json): string {
  if (option === true) return "Yes";
  if (option === false) return "No";
  return option === null ? "Nothing" : typeof option === "string" ? option : write(option);
}

function Choice({ it, value, onChange, wrong, path, label, required, nullable, options }: InnerProps & { options: Json[] }) {
  const id = useId();
  const all = nullable && !options.includes(null) ? [...options, null] : options;
  const about = typeof it["description"] === "string" ? it["description"] : null;
  if (all.length > 6) {
    const index = all.findIndex((option) => equal(option, value));
    return (
      <div class="field">
        <Label for={id} label={label} required={required} it={it} />
        <select id={id} value={String(index)} {...describe(id, it)} {...isWrong(wrong, path)}
          onChange={(event) => onChange(all[Number(event.currentTarget.value)])}>
          <option value="-1">{required ? "Choose…" : "None"}</option>
          {all.map((option, number) => <option value={String(number)}>{named(nameOf(option))}</option>)}
        </select>
        <Errors id={`${id}-wrong`} wrong={wrong} path={path} />
      </div>
    );
  }
  return (
    <fieldset class="field choice" aria-describedby={`${id}-wrong`}>
      <legend><Plain text={label} />{!required && <span class="muted"> optional</span>}</legend>
      {about !== null && <p class="about"><Plain text={about} /></p>}
      <div class="chips">
        {all.map((option) => (
          <label class="chip">
            <input type="radio" name={id} checked={value !== undefined && equal(option, value)} onChange={() => onChange(option)} />
            <span><Plain text={nameOf(option)} /></span>
          </label>
        ))}
        {!required && value !== undefined && <button type="button" class="link" onClick={() => onChange(undefined)}>Leave out</button>}
      </div>
      <Errors id={`${id}-wrong`} wrong={wrong} path={path} />
    </fieldset>
  );
}

function Group({ label, it, required, id, wrong, path, children }: { label: string; it: JsonObject; required: boolean; id: string; wrong: Wrong[]; path: Path; children: preact.ComponentChildren }) {
  if (path.length === 0) return <>{children}<Errors id={`${id}-wrong`} wrong={wrong} path={path} /></>;
  return (
    <fieldset class="field group">
      <legend><Plain text={label} />{!required && <span class="muted"> optional</span>}</legend>
      {typeof it["description"] === "string" && <p class="about"><Plain text={it["description"]} /></p>}
      {children}
      <Errors id={`${id}-wrong`} wrong={wrong} path={path} />
    </fieldset>
  );
}

function ListField(props: InnerProps) {
  const { it, root, value, onChange, wrong, path, label, required, depth = 0 } = props;
  const id = useId();
  const list = Array.isArray(value) ? value : [];
  const keys = useKeys(list.length);
  const remove = (index: number): void => {
    keys.remove(index);
    onChange(list.filter((_, at) => at !== index));
  };
  const put = (index: number, one: Json | undefined): void => onChange(list.map((other, at) => (at === index ? (one ?? null) : other)));
  return (
    <Group {...{ label, it, required, id, wrong, path }}>
      {list.map((one, index) => (
        <div class="entry" key={keys.at(index)}>
          <Field schema={it["items"]} root={root} value={one} wrong={wrong} path={[...path, index]} label={`${label} ${index + 1}`} required depth={depth + 1}
            onChange={(changed) => put(index, changed)} />
          <button type="button" class="quiet" aria-label={`Remove ${named(label)} ${index + 1}`} onClick={() => remove(index)}>✕</button>
        </div>
      ))}
      <button type="button" class="quiet add" onClick={() => onChange([...list, blank(it["items"], root)])}>+ Add to <Plain text={label} /></button>
    </Group>
  );
}

function ObjectField(props: InnerProps) {
  const { it, root, value, onChange, wrong, path, label, required, nullable, depth = 0 } = props;
  const shownName = <Plain text={label} />;
  const id = useId();
  const members = isObject(value) ? value : {};
  const properties = isObject(it["properties"]) ? it["properties"] : {};
  const needed = Array.isArray(it["required"]) ? it["required"] : [];
  const others = Object.keys(members).filter((name) => !Object.hasOwn(properties, name));
  const put = (name: string, one: Json | undefined): void => {
    const { [name]: _, ...rest } = members;
    // In its old place, so that nothing moves about in the diff.
    onChange(one === undefined ? rest : Object.hasOwn(members, name) ? { ...members, [name]: one } : { ...rest, [name]: one });
  };
  // Where it is absent by itself, somebody who adds it wants more than that.
  const begin = (): Json => {
    const { default: given, ...rest } = it;
    return blank(isObject(given) ? it : rest, root);
  };
  // Not as its fields: one may have members of its own kind without end, and nobody could leave it out.
  if (path.length > 0 && !isObject(value)) {
    return (
      <Group {...{ label, it, required, id, wrong, path }}>
        {value === null && nullable && <p class="muted">Nothing.</p>}
        <div class="buttons small">
          <button type="button" class="quiet add" onClick={() => onChange(begin())}>+ Add {shownName}</button>
          {nullable && value !== null && <button type="button" class="link" onClick={() => onChange(null)}>Nothing</button>}
          {!required && value !== undefined && <button type="button" class="link" onClick={() => onChange(undefined)}>Leave out</button>}
        </div>
      </Group>
    );
  }
  return (
    <Group {...{ label, it, required, id, wrong, path }}>
      {[...Object.keys(properties), ...others].map((name) => (
        <Field key={name} schema={Object.hasOwn(properties, name) ? properties[name] : it["additionalProperties"]} root={root} value={Object.hasOwn(members, name) ? members[name] : undefined}
          wrong={wrong} path={[...path, name]} label={name} required={needed.includes(name)} depth={depth + 1} onChange={(one) => put(name, one)} />
      ))}
      {path.length > 0 && (nullable || !required) && (
        <div class="buttons small">
          {!required && <button type="button" class="quiet" onClick={() => onChange(undefined)}>Remove {shownName}</button>}
          {nullable && <button type="button" class="link" onClick={() => onChange(null)}>Nothing</button>}
        </div>
      )}
    </Group>
  );
}

/** An object whose names are free, such as a path by its old path. */
function MapField(props: InnerProps) {
  const { it, root, value, onChange, wrong, path, label, required, depth = 0 } = props;
  const id = useId();
  const given = isObject(value) ? value : {};
  const fields = useContext(TypedIn);
  const place = JSON.stringify(path);
  const [typed, setRows] = useState<[string, Json][]>(() => {
    const kept = fields.of(place);
    return kept !== undefined && equal(kept.value, given) ? (kept.shown as [string, Json][]) : Object.entries(given);
  });
  const rows = equal(Object.fromEntries(typed), given) ? typed : Object.entries(given);
  const keys = useKeys(rows.length);
  const take = (next: [string, Json][]): void => {
    const named = Object.fromEntries(next);
    setRows(next);
    onChange(named);
    fields.keep(place, Object.keys(named).length < next.length ? { shown: next, value: named } : undefined);
  };
  const twice = new Set(rows.map(([name]) => name)).size < rows.length;
  useBroken(id, twice);
  return (
    <Group {...{ label, it, required, id, wrong, path }}>
      {rows.map(([name, one], index) => (
        <div class="entry pair" key={keys.at(index)}>
          <div class="field">
            <label for={`${id}-${index}`}>Name {index + 1}</label>
            <textarea id={`${id}-${index}`} rows={1} value={name} spellcheck={false}
              onInput={(event) => { const text = event.currentTarget.value; take(rows.map((row, at) => (at === index ? [text, row[1]] : row))); }} />
          </div>
          <Field schema={it["additionalProperties"]} root={root} value={one} wrong={wrong} path={[...path, name]} label={`Value ${index + 1}`} required depth={depth + 1}
            onChange={(changed) => take(rows.map((row, at) => (at === index ? [row[0], changed ?? null] : row)))} />
          <button type="button" class="quiet" aria-label={`Remove ${named(name)}`} onClick={() => { keys.remove(index); take(rows.filter((_, at) => at !== index)); }}>✕</button>
        </div>
      ))}
      {twice && <p class="wrong">The same name stands twice.</p>}
      <button type="button" class="quiet add" onClick={() => take([...rows, ["", blank(it["additionalProperties"], root)]])}>+ Add to <Plain text={label} /></button>
    </Group>
  );
}

function readJson(text: string, required: boolean): { value?: Json; broken: string | null } {
  if (text.trim() === "" && !required) return { broken: null };
  try {
    return { value: parse(text), broken: null };
  } catch (error) {
    return { broken: error instanceof Error ? error.message : String(error) };
  }
}

/** What is typed has to be JSON before it counts. */
export function JsonField(props: Pick<FieldProps, "value" | "onChange" | "wrong" | "path" | "label" | "required"> & { it?: JsonObject }) {
  const { value, onChange, wrong, path, label, required, it = {} } = props;
  const id = useId();
  const fields = useContext(TypedIn);
  const place = JSON.stringify(path);
  const [text, setText] = useTyped(value, (it) => (it === undefined ? "" : write(it, 2)), fields.of(place));
  const [touched, setTouched] = useState(false);
  const read = useMemo(() => readJson(text, required), [text, required]);
  // An empty box is no mistake before anybody has written in it.
  const broken = touched || text !== "" ? read.broken : null;
  useBroken(id, broken !== null);
  const take = (entered: string): void => {
    setTouched(true);
    const now = readJson(entered, required);
    // As long as it is no JSON, the value is what it was.
    setText(entered, now.broken === null ? now.value : value);
    if (now.broken === null) onChange(now.value);
    fields.keep(place, now.broken === null ? undefined : { shown: entered, value });
  };
  return (
    <div class="field">
      <Label for={id} label={`${label} (JSON)`} required={required} it={it} />
      <textarea id={id} class="json" rows={Math.min(14, Math.max(3, text.split("\n").length))} value={text} spellcheck={false}
        {...describe(id, it)} {...(broken === null ? isWrong(wrong, path) : { "aria-invalid": "true" as const })}
        onInput={(event) => take(event.currentTarget.value)} />
      {broken === null ? <Errors id={`${id}-wrong`} wrong={wrong} path={path} /> : <p class="wrong" id={`${id}-wrong`}>This is no JSON yet: <Plain text={broken} /></p>}
    </div>
  );
}
