import { useEffect, useRef } from "react";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm, type ITheme } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { onEvent } from "../api/feed";
import { useColourScheme } from "../shell/theme";
import { allowStyles } from "./allowed";
import { TerminalConnection, type TerminalName, type TerminalState } from "./connection";

interface Props extends TerminalName {
  readonly onState: (state: TerminalState, words: string) => void;
}

const SCROLLBACK_LINES = 10_000;

/** A terminal of a session. A new name, rank or session needs a new element: give a `key`. */
export default function Terminal({ sessionId, rank, name, isReadOnly, onState }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const shown = useRef<Xterm | null>(null);
  const scheme = useColourScheme();
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const forbidStyles = allowStyles();
    const xterm = new Xterm({
      disableStdin: isReadOnly,
      fontFamily: getComputedStyle(element).fontFamily,
      fontSize: 13,
      scrollback: SCROLLBACK_LINES,
      screenReaderMode: true,
      theme: themeOf(element),
    });
    shown.current = xterm;
    const fit = new FitAddon();
    xterm.loadAddon(fit);
    xterm.open(element);
    if (xterm.textarea) {
      xterm.textarea.setAttribute("aria-label", "Terminal input");
      takeInsertedText(xterm, xterm.textarea);
    }
    fit.fit();
    const connection = new TerminalConnection(
      { sessionId, rank, name, isReadOnly },
      {
        size: () => ({ rows: xterm.rows, columns: xterm.cols }),
        write: (data, onDrawn) => xterm.write(data, onDrawn),
        onState,
      },
    );
    const stop = onEvent((event) => event === "reconnected" && connection.renew());
    xterm.onData((text) => connection.type(text));
    xterm.onResize(() => connection.resize());
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(element);
    xterm.focus();
    return () => {
      observer.disconnect();
      stop();
      connection.close();
      xterm.dispose();
      forbidStyles();
      shown.current = null;
    };
  }, [sessionId, rank, name, isReadOnly, onState]);
  useEffect(() => {
    if (shown.current && place.current) shown.current.options.theme = themeOf(place.current);
  }, [scheme]);
  return <div className="terminal" ref={place} />;
}

/** Types text that comes from no key, such as emoji and dictated words: xterm.js drops it in its screen reader mode. */
function takeInsertedText(xterm: Xterm, textarea: HTMLTextAreaElement): void {
  let isKeyDown = false;
  textarea.addEventListener("keydown", () => (isKeyDown = true), true);
  textarea.addEventListener("keyup", () => (isKeyDown = false), true);
  textarea.addEventListener("input", (event) => {
    const { data, inputType, isComposing } = event as InputEvent;
    if (data && inputType === "insertText" && !isComposing && !isKeyDown) xterm.input(data);
  });
}

function themeOf(element: Element): ITheme {
  const style = getComputedStyle(element);
  return { background: style.backgroundColor, foreground: style.color, cursor: style.color };
}
