import { Faults } from "../../parts/Faults";
import { useMe } from "../../identity/me";
import { NewestAlerts } from "./NewestAlerts";
import { Deliveries } from "./Deliveries";
import { Receivers } from "./Receivers";
import { Rules } from "./Rules";

/** Alerts, their rules, and the receivers of notifications. */
export function AlertsTab() {
  const live = useMe();
  const role = live.data?.role;
  return (
    <div className="stack">
      <Faults of={live} />
      <NewestAlerts />
      {role === "admin" || role === "operator" ? <Rules isAdmin={role === "admin"} /> : null}
      {role === "admin" ? (
        <>
          <Receivers />
          <Deliveries />
        </>
      ) : null}
    </div>
  );
}
