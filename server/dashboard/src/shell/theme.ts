import { Observable } from "../api/observable";

export type Theme = "system" | "light" | "dark";
const KEY = "aliquot.theme";

export const theme = new Observable<Theme>(stored());

export function setTheme(next: Theme): void {
  localStorage.setItem(KEY, next);
  theme.set(next);
  applyTheme();
}

export function applyTheme(): void {
  const current = theme.get();
  if (current === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = current;
}

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}
