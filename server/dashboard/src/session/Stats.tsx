import { ask } from "../api/client";
import { useLive } from "../api/live";
import { bytes, hoursText, ofBytes, plain } from "../format/amounts";
import { duration } from "../format/times";
import { SessionStatsDocument, type SessionStatsQuery } from "../generated/graphql";
import { figure, Table } from "../parts/Table";
import { WithLinks } from "../queue/WithLinks";
import { RightSize } from "../submit/RightSize";
import type { NamedDevice } from "./devices";
import type { Session } from "./loading";
import { isEnded } from "./standing";

const EVERY_MS = 10_000;

const GB = 1e9;

type Found = SessionStatsQuery["session_stats"];

/** The used part of a session's resources, and advice for the next one like it. */
export function Stats({ session, devices }: { readonly session: Session; readonly devices: readonly NamedDevice[] }) {
  const key = `${session.id}/${session.attempt}/${session.state}`;
  const live = useLive(
    async () => (await ask(SessionStatsDocument, { id: session.id })).session_stats,
    `stats/${key}`,
    isEnded(session.state) ? {} : { everyMs: EVERY_MS },
  );
  const found = live.data;
  // Users outside of its project may see the session without measurements.
  if (!found) return live.fault?.kind === "refused" ? <p className="note">{live.fault.message}</p> : null;
  const names = new Map(devices.map((device) => [device.id, device.name]));
  return (
    <section className="panel stack" aria-label="What it used">
      <div className="row">
        <h2>What it used</h2>
        {found.gpus.some((gpu) => gpu.share < 1) ? (
          <span className="quiet small">of a shared GPU, together with its other holders</span>
        ) : null}
      </div>
      <p>{factsOf(found, session.time_limit).join(", ")}.</p>
      {found.gpus.length ? (
        <div className="scroll" tabIndex={0} role="region" aria-label="Use of GPUs">
          <Table
            columns={[
              "GPU",
              "Agent",
              figure("Share", "Part of the GPU that it held"),
              figure("Busy", "Mean use while held"),
              figure("Busy, at most"),
              figure("Memory, at most", "Most memory in use, beside the memory of its share"),
            ]}
          >
            {found.gpus.map((gpu) => (
              <tr key={`${gpu.agent_id} ${gpu.device_id}`}>
                <td className="nowrap" title={gpu.device_id}>
                  {names.get(gpu.device_id) ?? `…${gpu.device_id.slice(-6)}`}
                </td>
                <td>{gpu.agent_id}</td>
                <td className="figure">{plain(gpu.share)}</td>
                <td className="figure">{percentText(gpu.utilization)}</td>
                <td className="figure">{percentText(gpu.utilization_max)}</td>
                <td className="figure">{memoryText(gpu)}</td>
              </tr>
            ))}
          </Table>
        </div>
      ) : null}
      {found.hosts.length ? (
        <ul aria-label="CPU and memory">
          {found.hosts.map((host) => (
            <li key={host.rank}>
              {found.hosts.length > 1 ? `Rank ${host.rank} on ${host.agent_id}: ` : ""}
              {hostText(host)}
            </li>
          ))}
        </ul>
      ) : null}
      {found.warning ? <p className="note warn">{found.warning}</p> : null}
      <p>
        <b>Advice:</b> <WithLinks text={found.advice} />
      </p>
      <RightSize of={found.right_size} />
    </section>
  );
}

/** @param limitS of the session as it is now: the stats are up to 10 s older. */
function factsOf(found: Found, limitS: number | null): string[] {
  const limit = limitS === null ? "" : ` of ${duration(limitS * 1000)}`;
  return [
    `Waited ${duration(found.wait * 1000)}`,
    ...(found.ran === null ? [] : [`ran ${duration(found.ran * 1000)}${limit}`]),
    `${hoursText(found.gpu_hours)} GPU-hours in all attempts`,
    ...(found.ettr === null || found.ettr === 1
      ? []
      : [
          `${(100 * found.ettr).toFixed(1)} % of its time with GPUs was productive: not spent on starts, or lost to failures (ETTR)`,
        ]),
    ...(found.cost ? [`cost ${found.cost.text}`] : []),
  ];
}

const percentText = (value: number | null) => (value === null ? "—" : `${Math.round(value)} %`);

/** CPU 1.2 of 4 (at most 3.8), memory 3.1/16 GiB (at most 5.2 GiB); once it has ended, the mean and the most. */
function hostText(host: Found["hosts"][number]): string {
  const runs = host.cpu !== null || host.memory !== null;
  const cpu = host.cpu ?? host.cpu_mean;
  const memory = runs ? host.memory : host.memory_peak;
  const cpuParts = [
    cpu === null ? "CPU not measured" : `CPU ${cpu.toFixed(1)}`,
    cpu === null || host.cpu_held === null ? "" : ` of ${plain(host.cpu_held)}`,
    cpu === null || host.cpu !== null ? "" : " on average",
    cpu === null || host.cpu_max === null ? "" : ` (at most ${host.cpu_max.toFixed(1)})`,
  ].join("");
  if (memory === null) return `${cpuParts}, memory not measured`;
  const size = host.memory_held === null ? bytes(memory) : memoryOf(memory, host.memory_held);
  const most = runs && host.memory_peak !== null ? ` (at most ${bytes(host.memory_peak)})` : "";
  return `${cpuParts}, memory ${runs ? "" : "at most "}${size}${most}`;
}

/** 3.1/16 GiB; of a part too small for that unit, 1.6 MiB of 16 GiB. */
function memoryOf(part: number, whole: number): string {
  return part < whole / 100 ? `${bytes(part)} of ${bytes(whole)}` : ofBytes(part, whole);
}

function memoryText({ memory_peak_gb: peak, memory_gb: own }: Found["gpus"][number]): string {
  if (peak === null) return "—";
  return own === null ? bytes(peak * GB) : ofBytes(peak * GB, own * GB);
}
