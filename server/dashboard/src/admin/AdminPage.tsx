import { Tab, TabList, TabPanel, Tabs } from "react-aria-components";
import { useSearchParams } from "wouter";
import { AccessTab } from "./AccessTab";
import { AgentsTab } from "./agents/AgentsTab";
import { AlertsTab } from "./alerts/AlertsTab";
import { AuditTab } from "./audit/AuditTab";
import { DoctorTab } from "./doctor/DoctorTab";
import { PolicyTab } from "./policy/PolicyTab";
import { QuotasTab } from "./quotas/QuotasTab";

/** Administration, in tabs. */
export default function AdminPage() {
  const [search, setSearch] = useSearchParams();
  return (
    <div className="stack">
      <h1>Admin</h1>
      <Tabs
        className="stack"
        selectedKey={search.get("tab") ?? "agents"}
        onSelectionChange={(key) => setSearch({ tab: String(key) }, { replace: true })}
      >
        <TabList aria-label="Administration" className="tabs">
          <Tab id="agents">Agents</Tab>
          <Tab id="policy">Policy</Tab>
          <Tab id="quotas">Quotas</Tab>
          <Tab id="alerts">Alerts</Tab>
          <Tab id="doctor">Doctor</Tab>
          <Tab id="audit">Audit</Tab>
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
        <TabPanel id="doctor">
          <DoctorTab />
        </TabPanel>
        <TabPanel id="audit">
          <AuditTab />
        </TabPanel>
        <TabPanel id="access">
          <AccessTab />
        </TabPanel>
      </Tabs>
    </div>
  );
}
