// Images and other files of a message, or of what a tool returned. What browsers draw is drawn; the rest can be saved.

import { Plain } from "../shown";
import type { Attachment, Message } from "../types";

/** How base64 of the formats begins that are drawn: of these alone no file can bring a script. */
const beginnings: Record<string, string> = {
  "image/png": "iVBOR",
  "image/jpeg": "/9j/",
  "image/gif": "R0lGOD",
  "image/webp": "UklGR",
};

export function Attached({ message }: { message: Files }) {
  const all = attachedTo(message);
  if (all.length === 0) return null;
  return (
    <ul class="attached" aria-label="Attached">
      {all.map((one, index) => <li key={index}><One attachment={one} /></li>)}
    </ul>
  );
}

/** What may have files: a message, and an entry of a journal. */
type Files = Pick<Message, "base64_image" | "attachments">;

/** An image, where it is one that is drawn. */
export function Drawn({ attachment: { media_type, data }, alt }: { attachment: Attachment; alt: string }) {
  return isDrawn(media_type, data) ? <img src={`data:${media_type};base64,${data}`} alt={alt} /> : null;
}

const isDrawn = (media_type: string, data: string | undefined): boolean => Boolean(data) && media_type in beginnings;

function One({ attachment }: { attachment: Attachment }) {
  const { media_type, data, url, name, shortened } = attachment;
  if (isDrawn(media_type, data)) return <Drawn attachment={attachment} alt={name ?? "An image"} />;
  const what = <><Plain text={name ?? "A file"} /> <span class="muted"><Plain text={media_type} /></span></>;
  // Whatever type somebody gave it, it is saved and never opened here.
  if (data !== undefined) return <a href={`data:application/octet-stream;base64,${data}`} download={name ?? "file"}>{what}</a>;
  if (shortened) return <span>{what} <span class="muted">too large to be shown here</span></span>;
  return <span>{what} <span class="muted">at <Plain text={url ?? ""} /></span></span>;
}

/** All that is attached, the older member first. */
export function attachedTo(message: Files): Attachment[] {
  const image = message.base64_image;
  if (!image) return message.attachments ?? [];
  const data = image.startsWith("data:") ? image.slice(image.indexOf(",") + 1) : image;
  const media_type = Object.keys(beginnings).find((type) => data.startsWith(beginnings[type] ?? "")) ?? "image/png";
  return [{ media_type, data }, ...(message.attachments ?? [])];
}
