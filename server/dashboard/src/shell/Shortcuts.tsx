import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { Boundary } from "../parts/Boundary";
import { Dialogue } from "../parts/Dialogue";
import { LETTERS, shortcutOf } from "./entries";
import { useCloseOnBack } from "./onBack";

const load = () => import("./Palette");
const Palette = lazy(load);
/** When the palette is loaded, after the page, so that it opens without a delay. */
const LOADED_AFTER_MS = 2_000;
/** How long `g` waits for its second key. */
const PAIR_MS = 1_500;

type Shown = "palette" | "help" | null;

/** The global shortcuts: a palette, the search, pages, and a list of these keys. */
export function Shortcuts() {
  const [shown, setShown] = useState<Shown>(null);
  const [, go] = useLocation();
  const before = useRef({ key: "", at: 0 });
  // The text typed while the requested palette is loading.
  const typed = useRef<string | null>(null);
  const now = useRef<Shown>(null);
  const open = (what: Shown) => {
    if (what === now.current) return;
    now.current = what;
    typed.current = what === "palette" ? "" : null;
    setShown(what);
    if (what === "palette") void load().catch(() => (typed.current = null));
  };
  useCloseOnBack(() => open(null));
  useEffect(() => {
    const timer = setTimeout(() => void load().catch(() => undefined), LOADED_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open("palette");
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (typed.current !== null) {
        event.preventDefault();
        if (event.key === "Escape") open(null);
        else typed.current = withKey(typed.current, event.key);
        return;
      }
      if (isTyping(event.target)) return;
      const { key, at } = before.current;
      before.current = { key: event.key, at: event.timeStamp };
      const meaning = shortcutOf(event.key, event.timeStamp - at < PAIR_MS ? key : "");
      if (meaning === null) return;
      event.preventDefault();
      before.current = { key: "", at: 0 };
      if (meaning === "help") open("help");
      else if (meaning === "search") focusSearch(() => open("palette"));
      else go(meaning.path);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [go]);
  return (
    <>
      {shown === "palette" ? (
        <Boundary place="palette">
          <Suspense>
            <Palette typed={typed} onClose={() => open(null)} />
          </Suspense>
        </Boundary>
      ) : null}
      <Dialogue title="Keyboard" isOpen={shown === "help"} onClose={() => open(null)}>
        <dl className="keys">
          {KEYS.map(([keys, text]) => (
            <div key={keys}>
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
      </Dialogue>
    </>
  );
}

const KEYS: readonly (readonly [string, string])[] = [
  ["Ctrl K", "Go to a session, node, user or page, or do something"],
  ["/", "Search the page"],
  ["?", "These keys"],
  ...Object.entries(LETTERS).map(([letter, { text }]) => [`g ${letter}`, text] as const),
];

/** The search field of the page; the palette if it has none. */
function focusSearch(otherwise: () => void): void {
  const field = document.querySelector<HTMLInputElement>("[data-shortcut='/'], main input[type='search']");
  if (field) field.focus();
  else otherwise();
}

function withKey(text: string, key: string): string {
  if (key === "Backspace") return text.slice(0, -1);
  return key.length === 1 ? text + key : text;
}

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.("input, textarea, select, [contenteditable], [role='dialog']"));
}
