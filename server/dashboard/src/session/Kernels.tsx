import { quantity } from "../format/amounts";
import { duration } from "../format/times";
import { useNow } from "../format/clock";
import { figure, Table } from "../parts/Table";
import type { NamedDevice } from "./devices";
import type { Kernel, Session } from "./loading";
import { caveat } from "./standing";

/** The kernels of a session: rank, agent, state and devices. */
export function Kernels({ session, devices }: { readonly session: Session; readonly devices: readonly NamedDevice[] }) {
  const names = new Map(devices.map((device) => [device.id, device.name]));
  const now = useNow();
  if (session.kernels.length === 0) return null;
  return (
    <section className="panel scroll" aria-label="Kernels" tabIndex={0}>
      <h2>Kernels{session.attempt > 1 ? `, attempt ${session.attempt}` : ""}</h2>
      <Table columns={[figure("Rank"), "Agent", "State", "Devices", figure("Run time")]}>
        {session.kernels.map((kernel) => (
          <tr key={kernel.id}>
            <td className="figure">{kernel.rank}</td>
            <td>
              <span className="nowrap">{kernel.agent_id}</span> <span className="small">{caveat(kernel, devices)}</span>
            </td>
            <td>
              {kernel.state} <span className="small">{outcomeOf(kernel)}</span>
            </td>
            <td>
              <Given kernel={kernel} names={names} />
            </td>
            <td className="figure">
              {kernel.started_at
                ? duration((kernel.ended_at ? Date.parse(kernel.ended_at) : now) - Date.parse(kernel.started_at))
                : "—"}
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

function Given({ kernel, names }: { readonly kernel: Kernel; readonly names: ReadonlyMap<string, string> }) {
  return (
    <ul>
      {kernel.resource_spec.map((grant) => (
        <li key={grant.slot}>
          {isMany(grant.slot) ? (
            <span>{quantity(grant.slot, String(grant.devices.length))}</span>
          ) : (
            grant.devices.map((device) => (
              <div key={device.device_id} className="nowrap">
                {quantity(grant.slot, device.amount)}{" "}
                <span className="quiet" title={device.device_id}>
                  {names.get(device.device_id) ?? device.device_id}
                </span>
              </div>
            ))
          )}
        </li>
      ))}
    </ul>
  );
}

/** Cores are granted one by one; only their number is shown. */
function isMany(slot: string): boolean {
  return slot === "cpu";
}

function outcomeOf(kernel: Kernel): string {
  return [
    kernel.timed_out ? "ended by its time limit" : "",
    kernel.signal ? `signal ${kernel.signal}` : "",
    kernel.exit_code === null ? "" : `exit code ${kernel.exit_code}`,
    kernel.message ?? "",
    kernel.holds_devices && kernel.ended_at ? "its devices are still held" : "",
  ]
    .filter(Boolean)
    .join(", ");
}
