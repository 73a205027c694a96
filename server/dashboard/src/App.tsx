import { lazy, Suspense } from "react";
import { Link, Redirect, Route, Switch } from "wouter";
import { useObservable } from "./api/observable";
import { user } from "./api/presence";
import { ClusterPage } from "./cluster/ClusterPage";
import { Empty } from "./parts/Empty";
import { SessionsPage } from "./queue/SessionsPage";
import { SessionPage } from "./session/SessionPage";
import { Shell } from "./shell/Shell";
import { SignIn } from "./shell/SignIn";

const AdminPage = lazy(() => import("./admin/AdminPage"));
const CalendarPage = lazy(() => import("./calendar/CalendarPage"));
const SubmitPage = lazy(() => import("./submit/SubmitPage"));
const WhatIfPage = lazy(() => import("./whatif/WhatIfPage"));
const UsagePage = lazy(() => import("./usage/UsagePage"));

/** All routes of the dashboard. The server answers each of them with the same page. */
export function App() {
  const name = useObservable(user);
  if (name === "") return <SignIn />;
  // Anew for another user, who may have signed in in another tab: forms hold what the one before has typed.
  return (
    <Shell key={name}>
      <Suspense fallback={<p className="quiet">Loading …</p>}>
        <Switch>
          <Route path="/" component={ClusterPage} />
          <Route path="/sessions" component={SessionsPage} />
          <Route path="/queue">
            <Redirect to={`/sessions${window.location.search}`} replace />
          </Route>
          <Route path="/sessions/:id" component={SessionPage} />
          <Route path="/calendar" component={CalendarPage} />
          <Route path="/submit" component={SubmitPage} />
          <Route path="/what-if" component={WhatIfPage} />
          <Route path="/usage" component={UsagePage} />
          <Route path="/admin" component={AdminPage} />
          <Route>
            <Empty title="Page not found">
              <p>
                There is no page at this address. <Link href="/">Back to the cluster</Link>
              </p>
            </Empty>
          </Route>
        </Switch>
      </Suspense>
    </Shell>
  );
}
