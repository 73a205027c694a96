/** The largest number that the API takes where it wants a whole one. */
export const WHOLE_MAX = 2_147_483_647;

/** Whether a text is a whole number that the API takes. */
export function isWhole(text: string, least = 0, most = WHOLE_MAX): boolean {
  const value = Number(text);
  return /^\d+$/.test(text.trim()) && value >= least && value <= most;
}

/** The message about another text; undefined if it is one. */
export function wholeWrong(text: string, least = 0): string | undefined {
  if (isWhole(text, least)) return undefined;
  return isWhole(text, 0, Infinity) && Number(text) > WHOLE_MAX
    ? `Enter at most ${WHOLE_MAX}.`
    : `Enter a whole number, ${least} or more.`;
}

/** The message about a text that is no decimal number above 0; undefined if it is one. */
export function positiveWrong(text: string): string | undefined {
  const written = text.trim();
  if (/^\d+(\.\d+)?$/.test(written) && Number(written) > 0) return undefined;
  return /^\d+,\d{1,2}$/.test(written)
    ? `Write a point, not a comma: ${written.replace(",", ".")}.`
    : "Enter a number above 0.";
}
