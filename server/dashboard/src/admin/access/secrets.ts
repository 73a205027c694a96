import { isSecretName } from "../../submit/secrets";

const BYTES_MAX = 32 * 1024;

/** The value of a secret while its dialogue is open; it is stored nowhere in the browser. */
export interface Value {
  readonly text: string;
  /** The file or pasted lines that the value is from; null if it was typed in the password field, which holds one line. */
  readonly source: string | null;
}

export const NO_VALUE: Value = { text: "", source: null };

/** The error message about a name; undefined if it is valid or still empty. */
export function nameWrong(name: string): string | undefined {
  if (name === "" || isSecretName(name)) return undefined;
  return "Write 1 to 64 letters, digits, _ . and -; the first is a letter or _.";
}

/** The error message about a value, without the value; undefined if it is valid or still empty. */
export function valueWrong({ text, source }: Value): string | undefined {
  if (text === "" && source !== null) return "It is empty.";
  if (text.includes("\0")) return "It contains a NUL character; encode it first, for example with base64.";
  const size = new TextEncoder().encode(text).length;
  return size > BYTES_MAX ? `It has ${size} bytes; the limit is ${BYTES_MAX}.` : undefined;
}

/** A pasted value of several lines, with their ends as on Unix; null for one line, which the field holds itself. */
export function pastedValue(pasted: string): Value | null {
  const text = pasted.replaceAll("\r\n", "\n");
  const count = text.replace(/\n$/, "").split("\n").length;
  return count > 1 ? { text, source: `${count} pasted lines` } : null;
}

/** The unchanged text of a file; null if it is not UTF-8. */
export function fileValue(name: string, content: BufferSource): Value | null {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content), source: name };
  } catch {
    return null;
  }
}
