import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import type { Lines } from "./lines";
import { LogLine } from "./LogLine";

const LINE_PX = 17;

interface Props {
  readonly lines: Lines;
  /** Counts updates: the lines are changed in place. */
  readonly news: number;
  readonly isFollowing: boolean;
  readonly onLeave: () => void;
  /** The row to scroll to, counted from the log's beginning. */
  readonly at: number | null;
  readonly hits: readonly number[];
  /** Whether long lines take several rows instead of a scroll bar. */
  readonly isWrapped: boolean;
}

/** The visible lines; rendering takes the same time for a log of any length. */
export function LogScroll({ lines, news, isFollowing, onLeave, at, hits, isWrapped }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const marked = useMemo(() => new Set(hits), [hits]);
  const count = lines.count;
  const rows = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: 20,
  });
  useEffect(() => {
    if (isFollowing && count > 0) rows.scrollToIndex(count - 1, { align: "end" });
  }, [isFollowing, count, news, rows]);
  useEffect(() => rows.measure(), [isWrapped, rows]);
  useEffect(() => {
    if (at !== null) rows.scrollToIndex(Math.max(0, at - lines.first), { align: "center" });
  }, [at, lines, rows]);

  return (
    <div
      ref={box}
      className={isWrapped ? "log-lines wrapped" : "log-lines"}
      tabIndex={0}
      role="log"
      aria-live="off"
      aria-label="Output"
      onWheel={(event) => event.deltaY < 0 && onLeave()}
      onTouchMove={onLeave}
      onKeyDown={(event) => ["ArrowUp", "PageUp", "Home"].includes(event.key) && onLeave()}
    >
      <div style={{ height: rows.getTotalSize() }} className="log-tall">
        {rows.getVirtualItems().map((row) => {
          const number = lines.first + row.index;
          const line = lines.at(row.index);
          return (
            <div
              key={number}
              ref={isWrapped ? rows.measureElement : undefined}
              data-index={row.index}
              className={`log-line ${marked.has(number) ? "hit" : ""} ${number === at ? "at" : ""}`}
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <span className="log-number" aria-hidden="true">
                {line.isRest ? "" : line.number + 1}
              </span>
              <span className="log-text">
                <LogLine line={line} />
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
