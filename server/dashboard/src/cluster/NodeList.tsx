import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useRef, useState } from "react";
import { NodePanel } from "./NodePanel";
import type { Node } from "./nodes";

const HEIGHT_GUESS = 190;

/** All nodes; only visible ones are rendered. */
export function NodeList({ nodes }: { readonly nodes: readonly Node[] }) {
  const root = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(root.current?.offsetTop ?? 0), [nodes.length]);
  const rows = useWindowVirtualizer({
    count: nodes.length,
    estimateSize: () => HEIGHT_GUESS,
    overscan: 3,
    scrollMargin: top,
    getItemKey: (index) => nodes[index]?.id ?? index,
  });
  return (
    <div ref={root} className="node-list" style={{ height: rows.getTotalSize() }}>
      {rows.getVirtualItems().map((row) => {
        const node = nodes[row.index];
        return node ? (
          <div
            key={row.key}
            ref={rows.measureElement}
            data-index={row.index}
            style={{ transform: `translateY(${row.start - top}px)` }}
          >
            <NodePanel node={node} />
          </div>
        ) : null;
      })}
    </div>
  );
}
