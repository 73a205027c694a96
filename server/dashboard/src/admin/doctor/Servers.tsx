import { ask } from "../../api/client";
import { problemsOfServer } from "../../api/problems";
import { useLive } from "../../api/live";
import { moment } from "../../format/times";
import { words } from "../../format/words";
import { ServersDocument } from "../../generated/graphql";
import { Faults } from "../../parts/Faults";

/** The problems of this server, the leader, and the connection to Ray. */
export function Servers() {
  const live = useLive(() => ask(ServersDocument, {}), "servers", { everyMs: 5_000 });
  const problems = useLive(problemsOfServer, "problems", { everyMs: 5_000 });
  if (!live.data) return <Faults of={live} />;
  const { orchestrator: server, cluster } = live.data;
  const { ray } = cluster;
  return (
    <section className="panel stack" aria-label="Servers">
      <Faults of={problems} />
      {problems.data?.map(({ code, message }) => (
        <p key={`${code} ${message}`} className="note warn">
          <b>{words(code)}</b>: {message}
        </p>
      ))}
      <dl className="facts">
        <div>
          <dt>this server</dt>
          <dd>
            {server.role}, {server.address}
          </dd>
        </div>
        <div>
          <dt>leader</dt>
          <dd className={server.leader_address ? "" : "warn"}>{server.leader_address ?? "unknown"}</dd>
        </div>
        <div>
          <dt>epoch</dt>
          <dd>
            {server.epoch}
            {server.leads_since ? `, since ${moment(server.leads_since)}` : ""}
          </dd>
        </div>
        {ray ? (
          <div>
            <dt>Ray, {ray.head_node}</dt>
            <dd className={ray.connected ? "" : "bad"}>
              {ray.connected
                ? `${ray.version ?? ""}, ${ray.workers} of ${ray.nodes} nodes have an agent`
                : "not connected"}{" "}
              {ray.reason}
            </dd>
          </div>
        ) : null}
      </dl>
    </section>
  );
}
