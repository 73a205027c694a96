import { useSyncExternalStore } from "react";
import { Observable, useObservable } from "../api/observable";

export type Theme = "system" | "light" | "dark";
const system = matchMedia("(prefers-color-scheme: dark)");
const KEY = "aliquot.theme";

export const theme = new Observable<Theme>(stored());

export function setTheme(next: Theme): void {
  localStorage.setItem(KEY, next);
  applyTheme(next);
  theme.set(next);
}

/** Applies the theme chosen in another tab. */
export function followTheme(): void {
  addEventListener("storage", ({ key }) => {
    if (key !== KEY && key !== null) return;
    theme.set(stored());
    applyTheme();
  });
}

/** Changes whenever canvases must be drawn in other colours: by the button, or by the system. */
export function useColourScheme(): string {
  const chosen = useObservable(theme);
  const isDark = useSyncExternalStore(watchSystem, () => system.matches);
  return chosen === "system" && isDark ? "dark" : chosen;
}

export function applyTheme(current: Theme = theme.get()): void {
  if (current === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = current;
}

function watchSystem(onChange: () => void): () => void {
  system.addEventListener("change", onChange);
  return () => system.removeEventListener("change", onChange);
}

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}
