import { memo } from "react";
import { serverNow } from "../api/time";
import { amountOf, ofBytes, percent, shares } from "../format/amounts";
import { bookedText, type Booking } from "./booked";
import { classOf, keyOf, titleOf, useNaming } from "./holders";
import { shortModel } from "./choosing";
import { Meter } from "./Meter";
import { ailment, isUnwell, type Device } from "./nodes";
import { ShareBar } from "./ShareBar";

const HOLDERS_SHOWN = 4;

interface Props {
  readonly device: Device;
  /** Its booking of now or of the next hours. */
  readonly booking: Booking | undefined;
  readonly where: string;
  readonly isIdle: boolean;
  /** Whether the Tab key stops here; the arrow keys move on from it. */
  readonly isStop: boolean;
  /** Whether it names its model, as those of its node differ. */
  readonly hasModel: boolean;
}

/** One device. Highlighted: free, held but idle, a remainder below a whole device, and unhealthy. */
export const DeviceTile = memo(function DeviceTile({ device, booking, where, isIdle, isStop, hasModel }: Props) {
  const naming = useNaming();
  const shown = device.holders.length > HOLDERS_SHOWN ? HOLDERS_SHOWN - 1 : HOLDERS_SHOWN;
  const isFree = device.holders.length === 0;
  const notes = [isFree ? "free" : "", booking ? bookedText(booking, serverNow()) : ""].filter(Boolean);
  const kind = isUnwell(device) ? "unwell" : isFree ? "free" : isIdle ? "idle" : "busy";
  return (
    <button type="button" className={`tile ${kind}`} data-device={device.id} tabIndex={isStop ? 0 : -1}>
      <span className="tile-head">
        <b>{device.name}</b>
        <span className="hidden">on {where}</span>
        {hasModel ? <span className="quiet">{shortModel(device.model)}</span> : null}
        {kind === "unwell" ? <span className="badge fill-bad">{ailment(device)}</span> : null}
        {device.health === "leaving" ? <span className="badge fill-quiet">leaving</span> : null}
        {kind === "idle" ? <span className="badge fill-warn">idle</span> : null}
        {device.isolation !== "none" ? <span className="badge fill-quiet">{device.isolation}</span> : null}
      </span>
      <ShareBar device={device} />
      <span className="tile-holders">
        {device.holders.slice(0, shown).map((holder) => (
          <span key={keyOf(holder, "session")} className={classOf(holder, naming.grouping)}>
            <i />
            <span className="who">
              {holder.user} <span className="quiet">{titleOf(holder, naming.names)}</span>
            </span>
            <span>{shares(amountOf(holder.share))}</span>
          </span>
        ))}
        {device.holders.length > shown ? <span className="quiet">and {device.holders.length - shown} more</span> : null}
        {notes.length ? <span className="quiet">{notes.join(", ")}</span> : null}
      </span>
      <span className="tile-meters">
        <Meter label="util" value={device.utilization_pct} most={100} text={(value) => percent(value / 100)} />
        <Meter
          label="mem"
          value={device.memory_used_bytes}
          most={device.memory_bytes}
          text={(value) => ofBytes(value, device.memory_bytes)}
        />
        <span className="quiet">
          {device.temperature_c === null ? "— °C" : `${Math.round(device.temperature_c)} °C`}
          {device.power_w === null ? "" : ` · ${Math.round(device.power_w)} W`}
          {device.numa_node === null ? "" : ` · numa ${device.numa_node}`}
        </span>
      </span>
    </button>
  );
});
