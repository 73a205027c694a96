import { useEffect, useMemo, useRef, useState, type RefObject } from "react";
import { Dialog, Modal, ModalOverlay } from "react-aria-components";
import { useLocation } from "wouter";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { PaletteDocument } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { useSettled } from "../parts/settled";
import { matchingEntries, pageEntries, sessionEntries, type Entry } from "./entries";
import { setTheme } from "./theme";

const SHOWN = 14;
const LIST = "palette-list";

interface Props {
  /** The text typed while the palette was loading; null from then on. */
  readonly typed: RefObject<string | null>;
  readonly onClose: () => void;
}

/** Finds pages, sessions, nodes, users and actions by name; Enter goes there. */
export default function Palette({ typed, onClose }: Props) {
  const [text, setText] = useState(typed.current ?? "");
  useEffect(() => {
    typed.current = null;
  }, [typed]);
  const [at, setAt] = useState(0);
  const [, go] = useLocation();
  const me = useIdentity();
  const wanted = useSettled(text.trim());
  const found = useLive(() => load(wanted), `palette/${wanted}`);
  // The results for the previous text stay until those for this one arrive, so that Enter always finds an entry.
  const last = useRef<readonly Entry[]>([]);
  if (found.data) last.current = found.data;
  const known = last.current;
  const entries = useMemo(
    () => matchingEntries([...pageEntries(me), ...THEMES, ...known], text).slice(0, SHOWN),
    [known, text, me],
  );
  useEffect(() => setAt(0), [text]);
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    if (entry.act) entry.act();
    else if (entry.isDocument) window.location.assign(entry.path);
    else go(entry.path);
  };
  return (
    <ModalOverlay className="veil palette-veil" isOpen isDismissable onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Modal>
        <Dialog className="palette" aria-label="Go to">
          <input
            className="input"
            autoFocus
            role="combobox"
            aria-expanded="true"
            aria-controls={LIST}
            aria-activedescendant={entries[at] ? `${LIST}-${at}` : undefined}
            aria-label="Session, node, user, page or action"
            placeholder="Session, node, user, page or action"
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
              if (step !== undefined) {
                event.preventDefault();
                setAt((old) => (old + step + entries.length) % Math.max(1, entries.length));
              } else if (event.key === "Enter") choose(entries[at]);
            }}
          />
          <ul id={LIST} role="listbox" aria-label="Found">
            {entries.map((entry, index) => (
              <li
                key={`${entry.kind}/${entry.path}/${entry.text}`}
                id={`${LIST}-${index}`}
                role="option"
                aria-selected={index === at}
                className="option"
                onPointerMove={() => setAt(index)}
                onClick={() => choose(entry)}
              >
                {entry.text} <span className="quiet small">{entry.kind}</span>
              </li>
            ))}
          </ul>
          {entries.length === 0 ? <p className="quiet">{found.data ? "Nothing found." : "Searching …"}</p> : null}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

const THEMES: readonly Entry[] = (["light", "dark", "system"] as const).map((theme) => ({
  kind: "action",
  text: `Theme: ${theme}`,
  path: "",
  act: () => setTheme(theme),
}));

async function load(text: string): Promise<readonly Entry[]> {
  const { sessions, agents, usage } = await ask(PaletteDocument, { filter: text ? { search: text } : null });
  const nodes = [...new Set(agents.edges.map(({ node }) => node.node_id))];
  const users = [...new Set(usage.map(({ user }) => user))];
  return [
    ...sessionEntries(sessions.edges.map(({ node }) => node)),
    ...nodes.map((node) => ({ kind: "node", text: node, path: `/?node=${encodeURIComponent(node)}` })),
    ...users.map((user) => ({
      kind: "user",
      text: user,
      path: `/sessions?state=running&owner=${encodeURIComponent(user)}`,
    })),
  ];
}
