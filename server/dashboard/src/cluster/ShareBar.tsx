import { amountOf } from "../format/amounts";
import { classOf, useNaming } from "./holders";
import type { Device } from "./nodes";

/** A device as a bar: each holder's share in its colour, the free rest empty, hatched if it is a fragment. */
export function ShareBar({ device }: { readonly device: Pick<Device, "capacity" | "holders" | "free"> }) {
  const { grouping } = useNaming();
  const capacity = amountOf(device.capacity) || 1;
  return (
    <span className="share-bar" aria-hidden="true">
      {device.holders.map((holder) => (
        <span
          key={`${holder.lease_id}/${holder.session_id ?? ""}`}
          className={`part ${classOf(holder, grouping)}`}
          style={{ width: `${(100 * amountOf(holder.share)) / capacity}%` }}
        />
      ))}
      {device.holders.length > 0 && amountOf(device.free) > 0 ? <span className="part rest" /> : null}
    </span>
  );
}
