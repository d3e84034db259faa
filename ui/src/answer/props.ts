// What every way to answer is given.

import type { Json } from "../json";
import type { Interrupt } from "../types";
import type { Draft } from "./drafts";

export interface AnswerProps {
  record: Interrupt;
  /** Holds the answer, to be sent in a few seconds. */
  give: (value: Json, label: string, detail?: string) => void;
  draft: Draft;
  setDraft: (change: Partial<Draft>) => void;
  /** What the server found wrong with an answer before. */
  refused: { path: (string | number)[]; text: string }[];
  /** Whether the page's keys mean this request. */
  keys: boolean;
}
