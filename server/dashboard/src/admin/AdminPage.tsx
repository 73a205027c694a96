import { Tab, TabList, TabPanel, Tabs } from "react-aria-components";
import { useSearchParams } from "wouter";
import { BacktestTab } from "../backtest/BacktestTab";
import { useIdentity } from "../identity/me";
import { mayOperate, operatorsOnly } from "../identity/rights";
import { AccessTab } from "./AccessTab";
import { AgentsTab } from "./agents/AgentsTab";
import { AlertsTab } from "./alerts/AlertsTab";
import { AuditTab } from "./audit/AuditTab";
import { DoctorTab } from "./doctor/DoctorTab";
import { PolicyTab } from "./policy/PolicyTab";
import { QuotasTab } from "./quotas/QuotasTab";

const TABS: ReadonlySet<string> = new Set("agents policy quotas alerts backtest doctor audit access".split(" "));

/** Administration, in tabs. */
export default function AdminPage() {
  const [search, setSearch] = useSearchParams();
  const me = useIdentity();
  const isOperator = mayOperate(me);
  const named = search.get("tab") ?? "";
  const tab = TABS.has(named) ? named : "agents";
  return (
    <div className="stack">
      <h1>Admin</h1>
      <Tabs className="stack" selectedKey={tab} onSelectionChange={(key) => setSearch({ tab: String(key) })}>
        <TabList aria-label="Administration" className="tabs">
          <Tab id="agents">Agents</Tab>
          <Tab id="policy">Policy</Tab>
          <Tab id="quotas">Quotas</Tab>
          <Tab id="alerts">Alerts</Tab>
          {isOperator || tab === "backtest" ? <Tab id="backtest">Backtest</Tab> : null}
          {isOperator || tab === "doctor" ? <Tab id="doctor">Doctor</Tab> : null}
          {isOperator || tab === "audit" ? <Tab id="audit">Audit</Tab> : null}
          <Tab id="access">Access</Tab>
        </TabList>
        <TabPanel id="agents">
          <AgentsTab />
        </TabPanel>
        <TabPanel id="policy">
          <PolicyTab />
        </TabPanel>
        <TabPanel id="quotas">
          <QuotasTab />
        </TabPanel>
        <TabPanel id="alerts">
          <AlertsTab />
        </TabPanel>
        <TabPanel id="backtest">{isOperator ? <BacktestTab /> : <p>{operatorsOnly(me, "run backtests")}</p>}</TabPanel>
        <TabPanel id="doctor">{isOperator ? <DoctorTab /> : <p>{operatorsOnly(me, "run Doctor")}</p>}</TabPanel>
        <TabPanel id="audit">{isOperator ? <AuditTab /> : <p>{operatorsOnly(me, "read the audit log")}</p>}</TabPanel>
        <TabPanel id="access">
          <AccessTab />
        </TabPanel>
      </Tabs>
    </div>
  );
}
