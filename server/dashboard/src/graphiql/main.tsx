import "graphiql/setup-workers/vite";
import "graphiql/style.css";
import "./graphiql.css";
import { createGraphiQLFetcher } from "@graphiql/toolkit";
import { GraphiQL, HISTORY_PLUGIN } from "graphiql";
import { createClient } from "graphql-ws";
import { createRoot, type Root } from "react-dom/client";
import { user } from "../api/presence";
import { ask } from "./asking";
import { ExamplesIcon, ExamplesPane } from "./ExamplesPane";
import { FIRST } from "./examples";
import { filled } from "./filling";

const url = `${location.origin}/graphql`;
const fetcher = createGraphiQLFetcher({
  url,
  wsClient: createClient({ url: url.replace(/^http/, "ws"), retryAttempts: 5 }),
});
// GraphiQL keeps its tabs from visit to visit; at the first, the editor of variables must be told what the tab has.
const isFirstVisit = localStorage.getItem("graphiql:tabState") === null;
// The menu is narrow: what it opens is what people read. Who draws the border elsewhere keeps that.
if (isFirstVisit) localStorage.setItem("graphiql:docExplorerFlex", "0.22");
const EXAMPLES_PLUGIN = { title: "Examples", icon: ExamplesIcon, content: ExamplesPane };
const PLUGINS = [HISTORY_PLUGIN, EXAMPLES_PLUGIN];

const root = document.getElementById("root");
if (!user.get()) {
  // Signing in is the dashboard's; it comes back here afterwards.
  location.assign("/?next=/graphiql");
} else if (root) {
  void show(createRoot(root));
}

async function show(page: Root) {
  const query = FIRST?.query ?? "";
  const written = FIRST?.variables ?? "";
  const variables = isFirstVisit ? await filled(written, user.get(), ask).catch(() => written) : "";
  page.render(
    <GraphiQL
      fetcher={fetcher}
      plugins={PLUGINS}
      defaultTabs={[{ query, variables }]}
      defaultQuery={query}
      defaultEditorToolsVisibility="variables"
      {...(isFirstVisit ? { initialVariables: variables, visiblePlugin: EXAMPLES_PLUGIN } : {})}
    >
      <GraphiQL.Logo>
        <a className="home" href="/">
          Aliquot
        </a>
      </GraphiQL.Logo>
    </GraphiQL>,
  );
}
