/** Whether a change has begun since the first click of the present double click. */
let hasChanged = false;
let isRepeated = false;

/** Notes that a change begins. */
export function noteChange(): void {
  hasChanged = true;
}

/** Whether the present click is the second of a double click, or a later one. */
export function isRepeatedClick(): boolean {
  return isRepeated;
}

/** Drops the further clicks of a double click that has begun a change: by then another button may be at that place. */
export function dropRepeatedClicks(): void {
  document.addEventListener("mousedown", drop, true);
  document.addEventListener("click", drop, true);
}

function drop(event: MouseEvent): void {
  isRepeated = event.detail > 1;
  if (event.type === "mousedown" && !isRepeated) hasChanged = false;
  if (!isRepeated || !hasChanged) return;
  event.preventDefault();
  event.stopPropagation();
}
