import { Link } from "wouter";
import { useNow } from "../format/clock";
import { amountOf, bytes, plain, quantity } from "../format/amounts";
import { duration, moment } from "../format/times";
import { useIdentity } from "../identity/me";
import { mayOperate } from "../identity/rights";
import { bookedText, useBooked } from "./booked";
import { DeviceTrend } from "./DeviceTrend";
import { classOf, titleOf, useNaming } from "./holders";
import type { Device } from "./nodes";
import { ShareBar } from "./ShareBar";

interface Props {
  readonly device: Device;
  readonly agent: string | undefined;
  readonly node: string | undefined;
}

/** All details of a device, for the hover card and the dialogue. */
export function DeviceCard({ device, agent, node }: Props) {
  const me = useIdentity();
  const naming = useNaming();
  const now = useNow();
  const booking = useBooked().get(device.id);
  return (
    <div className="stack device-card">
      <div className="row quiet small">
        <span>{device.model}</span>
        <span>{device.memory_bytes ? bytes(device.memory_bytes) : null}</span>
        <span>isolation {device.isolation}</span>
        {device.numa_node === null ? null : <span>NUMA node {device.numa_node}</span>}
        {device.link_group === null ? null : <span>NVLink group {device.link_group}</span>}
        {device.parent_id === null ? null : <span>slice of {device.parent_id}</span>}
      </div>
      <ShareBar device={device} />
      <p>{`${plain(amountOf(device.free))} of ${quantity(`${device.kind}.shares`, device.capacity)} free`}</p>
      {device.holders.length ? (
        <ul className="stack">
          {device.holders.map((holder) => (
            <li key={`${holder.lease_id}${holder.session_id}`} className={`holder ${classOf(holder, naming.grouping)}`}>
              <i />
              <div>
                <b>{holder.user}</b> holds {holder.share}:{" "}
                {holder.session_id ? (
                  <Link href={`/sessions/${holder.session_id}`}>{titleOf(holder, naming.names)}</Link>
                ) : (
                  titleOf(holder, naming.names)
                )}
                <div className="quiet small">
                  since {moment(holder.since, now)} ({duration(now - Date.parse(holder.since))}),{" "}
                  {holder.until ? `until ${moment(holder.until, now)}` : "end unknown"}
                </div>
              </div>
            </li>
          ))}
        </ul>
      ) : (
        <p className="quiet">No session holds it.</p>
      )}
      {booking ? <p>{bookedText(booking, now)}</p> : null}
      {agent ? <DeviceTrend device={device} agent={agent} /> : null}
      <code className="quiet">{device.id}</code>
      {node ? (
        <p className="row small">
          <Link href={`/?view=history&node=${encodeURIComponent(node)}`}>Last 24 hours of its node</Link>
          {mayOperate(me) ? (
            <Link href={`/admin?tab=audit&device=${encodeURIComponent(device.id)}`}>Who held it before</Link>
          ) : null}
        </p>
      ) : null}
    </div>
  );
}
