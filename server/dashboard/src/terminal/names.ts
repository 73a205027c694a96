const BYTES = 6;

/** A new name; `crypto.randomUUID` is missing on pages without TLS. */
export function newName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(BYTES)), (byte) => byte.toString(16).padStart(2, "0")).join(
    "",
  );
}
