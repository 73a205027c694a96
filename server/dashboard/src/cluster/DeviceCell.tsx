import { memo } from "react";
import { serverNow } from "../api/time";
import { amountOf } from "../format/amounts";
import { bookedText, type Booking } from "./booked";
import { classOf, useNaming } from "./holders";
import { ailment, isUnwell, type Device } from "./nodes";

interface Props {
  readonly device: Device;
  readonly booking: Booking | undefined;
  readonly where: string;
  readonly isIdle: boolean;
  readonly isStop: boolean;
  readonly hasModel: boolean;
}

/** One device of a heat map: as full as it is held, in the colours of its holders. */
export const DeviceCell = memo(function DeviceCell({ device, booking, where, isIdle, isStop }: Props) {
  const { grouping } = useNaming();
  const capacity = amountOf(device.capacity) || 1;
  const state = isUnwell(device)
    ? ailment(device)
    : device.holders.length === 0
      ? "free"
      : isIdle
        ? "held, idle"
        : `held by ${[...new Set(device.holders.map((holder) => holder.user))].join(", ")}`;
  const kind = isUnwell(device) ? "unwell" : device.holders.length === 0 ? "free" : isIdle ? "idle" : "busy";
  return (
    <button
      type="button"
      className={`tile cell ${kind}`}
      data-device={device.id}
      tabIndex={isStop ? 0 : -1}
      aria-label={`${device.name} on ${where}: ${state}${booking ? `, ${bookedText(booking, serverNow())}` : ""}`}
    >
      {device.holders.map((holder) => (
        <span
          key={`${holder.lease_id}/${holder.session_id ?? ""}`}
          className={`part ${classOf(holder, grouping)}`}
          style={{ height: `${(100 * amountOf(holder.share)) / capacity}%` }}
        />
      ))}
    </button>
  );
});
