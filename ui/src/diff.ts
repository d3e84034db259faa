// What is different between two values, place by place; texts line by line.

import { equal, isObject, type Json } from "./json";

export interface Change {
  path: string;
  before: Json | undefined;
  after: Json | undefined;
}

export function changes(before: Json | undefined, after: Json | undefined, path = ""): Change[] {
  if (equal(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => changes(own(before, name), own(after, name), path === "" ? name : `${path}.${name}`));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const longest = Math.max(before.length, after.length);
    return Array.from({ length: longest }, (_, index) => index).flatMap((index) =>
      changes(before[index], after[index], `${path}[${index + 1}]`),
    );
  }
  return [{ path, before, after }];
}

function own(value: { [name: string]: Json }, name: string): Json | undefined {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

export interface Line {
  kind: "same" | "gone" | "new";
  text: string;
}

const MOST = 400;

/** Longest common subsequence of lines; beyond a size everything is gone and new. */
export function lines(before: string, after: string): Line[] {
  const one = before.split("\n");
  const two = after.split("\n");
  if (one.length > MOST || two.length > MOST) {
    return [...one.map((text): Line => ({ kind: "gone", text })), ...two.map((text): Line => ({ kind: "new", text }))];
  }
  const width = two.length + 1;
  const length = new Uint16Array((one.length + 1) * width);
  const at = (row: number, column: number): number => length[row * width + column] ?? 0;
  for (let row = one.length - 1; row >= 0; row--) {
    for (let column = two.length - 1; column >= 0; column--) {
      length[row * width + column] =
        one[row] === two[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const out: Line[] = [];
  let row = 0;
  let column = 0;
  while (row < one.length || column < two.length) {
    const [left, right] = [one[row], two[column]];
    if (left !== undefined && left === right) {
      out.push({ kind: "same", text: left });
      row++;
      column++;
    } else if (left !== undefined && (right === undefined || at(row + 1, column) >= at(row, column + 1))) {
      out.push({ kind: "gone", text: left });
      row++;
    } else if (right !== undefined) {
      out.push({ kind: "new", text: right });
      column++;
    }
  }
  return out;
}
