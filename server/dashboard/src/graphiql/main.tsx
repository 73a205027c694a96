import "graphiql/setup-workers/vite";
import "graphiql/style.css";
import "./graphiql.css";
import { createGraphiQLFetcher } from "@graphiql/toolkit";
import { GraphiQL } from "graphiql";
import { createClient } from "graphql-ws";
import { createRoot } from "react-dom/client";
import { EXAMPLES } from "./examples";

const url = `${location.origin}/graphql`;
const fetcher = createGraphiQLFetcher({
  url,
  wsClient: createClient({ url: url.replace(/^http/, "ws"), retryAttempts: 5 }),
});
// GraphiQL keeps its tabs from visit to visit; at the first, the editor of variables must be told what the tab has.
const isFirstVisit = localStorage.getItem("graphiql:tabState") === null;
const tabs = EXAMPLES.map(({ query, variables }) => ({ query, variables: variables ?? "" }));

const isKnown = document.querySelector<HTMLMetaElement>('meta[name="aliquot-user"]')?.content;
const root = document.getElementById("root");
if (!isKnown) {
  // Signing in is the dashboard's; it comes back here afterwards.
  location.assign("/?next=/graphiql");
} else if (root) {
  createRoot(root).render(
    <GraphiQL
      fetcher={fetcher}
      defaultTabs={tabs}
      defaultQuery={EXAMPLES[0]?.query ?? ""}
      defaultEditorToolsVisibility="variables"
      {...(isFirstVisit ? { initialVariables: EXAMPLES[0]?.variables ?? "" } : {})}
    >
      <GraphiQL.Logo>
        <a href="/">Aliquot</a>
      </GraphiQL.Logo>
    </GraphiQL>,
  );
}
