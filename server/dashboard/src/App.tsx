import { lazy, Suspense } from "react";
import { Route, Switch } from "wouter";
import { useObservable } from "./api/observable";
import { user } from "./api/presence";
import { ClusterPage } from "./cluster/ClusterPage";
import { Empty } from "./parts/Empty";
import { QueuePage } from "./queue/QueuePage";
import { SessionPage } from "./session/SessionPage";
import { Shell } from "./shell/Shell";
import { SignIn } from "./shell/SignIn";

const AdminPage = lazy(() => import("./admin/AdminPage"));
const SubmitPage = lazy(() => import("./submit/SubmitPage"));
const UsagePage = lazy(() => import("./usage/UsagePage"));

/** All routes of the dashboard. The server answers each of them with the same page. */
export function App() {
  if (useObservable(user) === "") return <SignIn />;
  return (
    <Shell>
      <Suspense fallback={<p className="quiet">Loading …</p>}>
        <Switch>
          <Route path="/" component={ClusterPage} />
          <Route path="/queue" component={QueuePage} />
          <Route path="/sessions/:id" component={SessionPage} />
          <Route path="/submit" component={SubmitPage} />
          <Route path="/usage" component={UsagePage} />
          <Route path="/admin" component={AdminPage} />
          <Route>
            <Empty title="Page not found" />
          </Route>
        </Switch>
      </Suspense>
    </Shell>
  );
}
