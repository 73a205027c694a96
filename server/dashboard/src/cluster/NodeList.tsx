import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useRef, useState } from "react";
import { NodePanel } from "./NodePanel";
import type { Node } from "./nodes";

const HEIGHT_GUESS = 190;
const HEAT_HEIGHT_GUESS = 80;

/** All nodes; only visible ones are rendered. */
export function NodeList({ nodes, isHeat }: { readonly nodes: readonly Node[]; readonly isHeat: boolean }) {
  const root = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(root.current?.offsetTop ?? 0), [nodes.length, isHeat]);
  const rows = useWindowVirtualizer({
    count: nodes.length,
    estimateSize: () => (isHeat ? HEAT_HEIGHT_GUESS : HEIGHT_GUESS),
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
            <NodePanel node={node} isHeat={isHeat} />
          </div>
        ) : null;
      })}
    </div>
  );
}
