import { Observable } from "./observable";

/** Whether anybody looks at the page: it is not behind other windows. */
export const seen = new Observable(isSeen());

document.addEventListener("visibilitychange", () => seen.set(isSeen()));

function isSeen(): boolean {
  return document.visibilityState === "visible";
}
