// Files that a person adds to a message: what they are, and how much of a request they take.

import { size } from "../api";
import { counted } from "../format";
import { write, type Json, type JsonObject } from "../json";
import type { Attachment } from "../types";

/** A file that is to be sent. */
export interface Chosen extends Attachment {
  data: string;
  name: string;
  /** Of the file, in bytes. */
  bytes: number;
}

/** The request, as the server reads it. */
export function messageWith(content: string, chosen: readonly Chosen[]): JsonObject {
  const attachments = chosen.map(({ media_type, data, name }) => ({ media_type, data, name }));
  return { role: "user", ...(content === "" ? {} : { content }), ...(attachments.length === 0 ? {} : { attachments: attachments as Json }) };
}

/** How many bytes that request has. Base64 is written as it is, and so need not be written to be counted. */
export function lengthWith(content: string, chosen: readonly Chosen[]): number {
  const bare = messageWith(content, chosen.map((one) => ({ ...one, data: "" })));
  return chosen.reduce((sum, one) => sum + one.data.length, size(write(bare)));
}

/** How many bytes of files fit a request, beside their names and some words. */
export function roomIn(most: number): number {
  return Math.max(0, Math.floor((most - 1024) / 4) * 3);
}

/** Reads a file. Throws what the browser says where it cannot: what is dropped may be a folder. */
export async function read(file: File): Promise<Chosen> {
  return { media_type: await typeOf(file), data: await base64Of(file), name: file.name, bytes: file.size };
}

/** Browsers know few types by a name. What has none is text where it can be: a model is shown that. */
async function typeOf(file: File): Promise<string> {
  const told = file.type.split(";", 1)[0]?.trim();
  if (told) return told;
  const bytes = await file.arrayBuffer();
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return "text/plain";
  } catch {
    return "application/octet-stream";
  }
}

function base64Of(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error);
    reader.onload = () => {
      const url = String(reader.result);
      resolve(url.slice(url.indexOf(",") + 1));
    };
    reader.readAsDataURL(file);
  });
}

/** A size for people. */
export function sized(bytes: number): string {
  if (bytes < 1_000) return counted(bytes, "byte");
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
