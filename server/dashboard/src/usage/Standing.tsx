import { Button } from "react-aria-components";
import { useLive } from "../api/live";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { saveCsv } from "./csv";
import { csvOf } from "./figures";
import { loadUsage } from "./loading";
import { UsageTable } from "./UsageTable";

const EVERY_MS = 10_000;

/** Usage by user and project, as fair share and quotas count it. */
export function Standing() {
  const usage = useLive(loadUsage, "usage", { everyMs: EVERY_MS });
  return (
    <section className="panel stack" aria-label="By user and project">
      <div className="row">
        <h2>Charged usage</h2>
        <span className="quiet small">hours of a whole device, as charged by the policy</span>
        <Button
          className="button end"
          isDisabled={!usage.data?.length}
          aria-label="CSV of charged usage"
          onPress={() => saveCsv("usage.csv", csvOf(usage.data ?? []))}
        >
          CSV
        </Button>
      </div>
      <Faults of={usage} />
      {usage.data?.length ? (
        <div className="scroll" tabIndex={0} role="region" aria-label="Usage">
          <UsageTable rows={usage.data} />
          <p className="quiet small">
            GPU-hours count this calendar month, as quotas do; Total counts since the cluster began; Decayed counts
            older usage less, and fair share orders by Share, its part of all. A name opens its sessions.{" "}
            <a href="/docs/concepts/fair-share.html#past-use">Docs</a>
          </p>
        </div>
      ) : null}
      {usage.data?.length === 0 ? (
        <Empty title="There is no usage yet">
          <p>Devices count from their grant to a session until their release.</p>
        </Empty>
      ) : null}
    </section>
  );
}
