/** Previews of results by a file's name and first bytes; never run and never shown as a page. */

const IMAGES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};
export const TEXT_BYTES = 64 * 1024;
export const IMAGE_BYTES_MAX = 8 * 1024 * 1024;
const ROWS_MAX = 100;
const CELLS_MAX = 30;

export type Preview =
  | { readonly kind: "text"; readonly text: string; readonly isCut: boolean }
  | { readonly kind: "table"; readonly rows: readonly (readonly string[])[]; readonly isCut: boolean }
  | { readonly kind: "image"; readonly address: string }
  | { readonly kind: "none"; readonly why: string };

/** Where a result is downloaded. */
export function addressOf(id: string, rank: number, path: string): string {
  const parts = path.split("/").map(encodeURIComponent).join("/");
  return `/sessions/${encodeURIComponent(id)}/files/${parts}${rank ? `?rank=${rank}` : ""}`;
}

/** Reads the beginning of a text or a table, or a whole image. */
export async function previewOf(address: string, path: string, size: number): Promise<Preview> {
  const ending = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  const image = IMAGES[ending];
  if (image && size > IMAGE_BYTES_MAX) return { kind: "none", why: "The image is too large for a preview." };
  if (size === 0) return { kind: "none", why: "The file is empty." };
  const headers: Record<string, string> = image ? {} : { Range: `bytes=0-${TEXT_BYTES - 1}` };
  const answer = await fetch(address, { credentials: "same-origin", headers });
  if (!answer.ok) return { kind: "none", why: await refusalOf(answer) };
  const bytes = new Uint8Array(await answer.arrayBuffer());
  if (image) return { kind: "image", address: await dataAddress(bytes, image) };
  if (bytes.includes(0)) return { kind: "none", why: "The file is no text." };
  const isCut = bytes.length < size;
  // A character that is cut off is left out.
  const text = new TextDecoder().decode(bytes, { stream: isCut });
  if (ending !== "csv" && ending !== "tsv") return { kind: "text", text, isCut };
  return tableOf(text, ending === "tsv" ? "\t" : ",", isCut);
}

/** The beginning of a table; `isCut` says whether it has more. */
export function tableOf(text: string, separator: string, isCut: boolean): Extract<Preview, { kind: "table" }> {
  const all = rowsOf(text, separator, isCut);
  const rows = all.slice(0, ROWS_MAX).map((row) => row.slice(0, CELLS_MAX));
  return { kind: "table", rows, isCut: isCut || all.length > ROWS_MAX || all.some((row) => row.length > CELLS_MAX) };
}

/** The first rows of a table, after RFC 4180: one more than are shown, if there are more. A row that is cut off is left out. */
function rowsOf(text: string, separator: string, isCut: boolean): string[][] {
  const rows: string[][] = [[]];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < text.length && rows.length <= ROWS_MAX + 1; at += 1) {
    const letter = text[at]!;
    if (isQuoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') {
        cell += letter;
        at += 1;
      } else isQuoted = false;
    } else if (letter === '"') isQuoted = true;
    else if (letter === separator || letter === "\n") {
      rows.at(-1)!.push(letter === "\n" ? cell.replace(/\r$/, "") : cell);
      cell = "";
      if (letter === "\n") rows.push([]);
    } else cell += letter;
  }
  if (!isCut && rows.length <= ROWS_MAX + 1 && (cell || rows.at(-1)!.length)) rows.at(-1)!.push(cell);
  else rows.pop();
  return rows.filter((row) => row.length);
}

async function refusalOf(answer: Response): Promise<string> {
  try {
    return String(((await answer.json()) as { detail?: unknown }).detail ?? answer.statusText);
  } catch {
    return answer.statusText;
  }
}

function dataAddress(bytes: Uint8Array<ArrayBuffer>, type: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error("The image could not be read."));
    reader.readAsDataURL(new Blob([bytes], { type }));
  });
}
