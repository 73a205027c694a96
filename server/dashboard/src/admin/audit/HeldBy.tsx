import { useEffect, useRef, useState } from "react";
import { Button } from "react-aria-components";
import { Link, useSearchParams } from "wouter";
import { ask, Refusal } from "../../api/client";
import { useLive } from "../../api/live";
import { loadCluster } from "../../cluster/loading";
import { isAccelerator, type Agent } from "../../cluster/nodes";
import { quantity } from "../../format/amounts";
import { moment } from "../../format/times";
import { HeldByDocument, type HeldByQuery } from "../../generated/graphql";
import { Choice } from "../../parts/Choice";
import { showNotice } from "../../parts/notices";
import { TablePanel } from "../../parts/Table";
import { Text } from "../../parts/Text";
import { momentOf } from "./filters";

interface Found {
  readonly at: string;
  readonly holders: HeldByQuery["held_by"];
}

/** Holders of a device at a given time; for one in the address, loaded immediately for now. */
export function HeldBy() {
  const [params] = useSearchParams();
  const cluster = useLive(loadCluster, "cluster", { isShared: true });
  const known = devicesOf(cluster.data ?? []);
  const [device, setDevice] = useState(params.get("device") ?? "");
  const [isOther, setOther] = useState(false);
  const [local, setLocal] = useState("");
  const [found, setFound] = useState<Found | null>(null);
  const searches = useRef(0);
  const search = async () => {
    const at = momentOf(local);
    const own = (searches.current += 1);
    try {
      const holders = (await ask(HeldByDocument, { device_id: device.trim(), at })).held_by;
      if (own === searches.current) setFound({ at, holders });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      showNotice({ tone: "bad", text: error.message });
    }
  };
  const isGiven = useRef(device !== "");
  useEffect(() => {
    if (isGiven.current) void search();
    isGiven.current = false;
  });
  return (
    <section className="panel stack" aria-label="Holders of a device">
      <h2>Holders of a device</h2>
      <div className="row wide at-end audit-filters">
        <Choice
          label="Device"
          value={isOther ? OTHER : device || NONE}
          options={[
            ...(device || isOther ? [] : [{ id: NONE, text: "choose …" }]),
            ...known,
            ...(device && !isOther && !known.some(({ id }) => id === device) ? [{ id: device, text: device }] : []),
            { id: OTHER, text: "another one, by its id" },
          ]}
          onChange={(id) => {
            setOther(id === OTHER);
            setDevice(id === OTHER ? "" : id);
          }}
        />
        {isOther ? (
          <Text label="Id of the device" value={device} onChange={setDevice} placeholder="the UUID of a GPU" />
        ) : null}
        <Text label="When" type="datetime-local" value={local} onChange={setLocal} />
        <Button className="button" isDisabled={!device.trim()} onPress={() => void search()}>
          Search
        </Button>
        <span className="quiet" role="status">
          {found
            ? `${found.holders.length || "No"} ${found.holders.length === 1 ? "holder" : "holders"} at ${moment(found.at)}`
            : "An empty time means now."}
        </span>
      </div>
      {found?.holders.length ? <Holders of={found.holders} /> : null}
    </section>
  );
}

const OTHER = "other";
const NONE = "none";

/** The accelerators, each once, as `demo-1 cuda0`. */
function devicesOf(agents: readonly Agent[]): { id: string; text: string }[] {
  const texts = agents.flatMap((agent) =>
    agent.devices.filter(isAccelerator).map((device) => [device.id, `${agent.hostname} ${device.name}`] as const),
  );
  return [...new Map(texts)].map(([id, text]) => ({ id, text }));
}

function Holders({ of }: { readonly of: Found["holders"] }) {
  return (
    <TablePanel label="Holders" columns={["User", "Held", "Since", "Until", "Session"]}>
      {of.map((one) => (
        <tr key={`${one.lease_id} ${one.slot}`}>
          <td>{one.user}</td>
          <td className="nowrap">{quantity(one.slot, one.amount)}</td>
          <td className="nowrap">{moment(one.since)}</td>
          <td className="nowrap">{one.until === null ? "still held" : moment(one.until)}</td>
          <td>
            {one.session_id === null ? one.kind : <Link href={`/sessions/${one.session_id}`}>{one.session_id}</Link>}
          </td>
        </tr>
      ))}
    </TablePanel>
  );
}
