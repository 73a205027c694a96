import { Observable } from "./observable";

/** Whether the page is visible. */
export const seen = new Observable(isSeen());

document.addEventListener("visibilitychange", () => seen.set(isSeen()));

function isSeen(): boolean {
  return document.visibilityState === "visible";
}
