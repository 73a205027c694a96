import { useEffect, useState, type RefObject } from "react";
import { DeviceCard } from "./DeviceCard";
import type { Device } from "./nodes";

const WIDTH = 320;
const GAP = 6;

/** A card beside the tile with the pointer or the focus; one for all tiles. */
export function HoverCard({
  of,
  find,
  agentOf,
}: {
  readonly of: RefObject<HTMLElement | null>;
  readonly find: (id: string) => Device | undefined;
  readonly agentOf: (id: string) => string | undefined;
}) {
  const [tile, setTile] = useState<HTMLElement | null>(null);
  useEffect(() => {
    const root = of.current;
    if (!root) return undefined;
    const show = (event: globalThis.Event) => setTile((event.target as HTMLElement).closest<HTMLElement>(".tile"));
    const hide = () => setTile(null);
    const escape = (event: KeyboardEvent) => event.key === "Escape" && hide();
    const events = ["pointerover", "focusin"];
    for (const name of events) root.addEventListener(name, show);
    root.addEventListener("pointerleave", hide);
    root.addEventListener("focusout", hide);
    addEventListener("scroll", hide, { passive: true });
    addEventListener("keydown", escape);
    return () => {
      for (const name of events) root.removeEventListener(name, show);
      root.removeEventListener("pointerleave", hide);
      root.removeEventListener("focusout", hide);
      removeEventListener("scroll", hide);
      removeEventListener("keydown", escape);
    };
  }, [of]);

  const device = tile?.isConnected ? find(tile.dataset["device"] ?? "") : undefined;
  if (!tile || !device) return null;
  const box = tile.getBoundingClientRect();
  const isHigh = box.top < innerHeight - box.bottom;
  return (
    <div
      role="tooltip"
      className="hover-card"
      style={{
        left: Math.max(GAP, Math.min(box.left, innerWidth - WIDTH - GAP)),
        ...(isHigh ? { top: box.bottom + GAP } : { bottom: innerHeight - box.top + GAP }),
      }}
    >
      <h3>{device.name}</h3>
      <DeviceCard device={device} agent={agentOf(device.id)} node={undefined} />
    </div>
  );
}
