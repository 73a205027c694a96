import { useLive } from "../api/live";
import { bytes, percent } from "../format/amounts";
import { courseOf } from "../history/course";
import { loadDeviceHistory } from "../history/loading";
import { Spark } from "../parts/Spark";
import { useSettled } from "../parts/settled";
import type { Device } from "./nodes";

const HOUR_MS = 3_600_000;
const EVERY_MS = 30_000;

/** Utilization and memory of a device in the last hour. */
export function DeviceTrend({ device, agent }: { readonly device: Device; readonly agent: string }) {
  const wanted = useSettled(device.id, "");
  const live = useLive(
    async () => (wanted ? await loadDeviceHistory(agent, wanted, HOUR_MS) : null),
    `${agent}/${wanted}`,
    { everyMs: EVERY_MS },
  );
  if (!live.data || wanted !== device.id) return null;
  const history = live.data;
  const values = (metric: string) => [...courseOf(history, metric).rows.values()][0] ?? [];
  const busy = values("utilization");
  const memory = values("memory_used");
  if (busy.every((value) => value === null)) return null;
  return (
    <div className="trend">
      <figure>
        <Spark
          label={`Busy in the last hour, at most ${percent(most(busy) / 100)}`}
          top={100}
          lines={[{ name: "busy", values: busy, token: "--accent" }]}
        />
        <figcaption className="quiet small">busy, last hour: at most {percent(most(busy) / 100)}</figcaption>
      </figure>
      <figure>
        <Spark
          label={`Memory in use in the last hour, at most ${bytes(most(memory))}`}
          top={device.memory_bytes || 1}
          lines={[{ name: "memory", values: memory, token: "--accent" }]}
        />
        <figcaption className="quiet small">memory: at most {bytes(most(memory))}</figcaption>
      </figure>
    </div>
  );
}

function most(values: readonly (number | null)[]): number {
  return Math.max(0, ...values.map((value) => value ?? 0));
}
