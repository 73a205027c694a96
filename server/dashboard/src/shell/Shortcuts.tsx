import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { Dialogue } from "../parts/Dialogue";
import { LETTERS, shortcutOf } from "./entries";

const load = () => import("./Palette");
const Palette = lazy(load);
/** When the palette is loaded, after the page: what is typed right after its keys would be lost while it loads. */
const LOADED_AFTER_MS = 2_000;
/** How long `g` waits for its second key. */
const PAIR_MS = 1_500;

/** The keys that work everywhere: a palette, the search, pages, and a list of these keys. */
export function Shortcuts() {
  const [shown, setShown] = useState<"palette" | "help" | null>(null);
  const [, go] = useLocation();
  const before = useRef({ key: "", at: 0 });
  useEffect(() => {
    const timer = setTimeout(() => void load().catch(() => undefined), LOADED_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setShown("palette");
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const { key, at } = before.current;
      before.current = { key: event.key, at: event.timeStamp };
      const meaning = shortcutOf(event.key, event.timeStamp - at < PAIR_MS ? key : "");
      if (meaning === null) return;
      event.preventDefault();
      before.current = { key: "", at: 0 };
      if (meaning === "help") setShown("help");
      else if (meaning === "search") focusSearch(() => setShown("palette"));
      else go(meaning.path);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [go]);
  return (
    <>
      {shown === "palette" ? (
        <Suspense>
          <Palette onClose={() => setShown(null)} />
        </Suspense>
      ) : null}
      <Dialogue title="Keyboard" isOpen={shown === "help"} onClose={() => setShown(null)}>
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

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.("input, textarea, select, [contenteditable], [role='dialog']"));
}
