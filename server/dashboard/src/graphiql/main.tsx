import "graphiql/setup-workers/vite";
import "graphiql/style.css";
import "@graphiql/plugin-explorer/style.css";
import "./graphiql.css";
import { explorerPlugin } from "@graphiql/plugin-explorer";
import { createGraphiQLFetcher } from "@graphiql/toolkit";
import { GraphiQL, HISTORY_PLUGIN } from "graphiql";
import { createClient } from "graphql-ws";
import { createRoot, type Root } from "react-dom/client";
import { user } from "../api/presence";
import { inWords, SIGNED_OUT } from "./answers";
import { ask, isLive, isSignedIn, upToDate } from "./asking";
import { ExamplesIcon, ExamplesPane } from "./ExamplesPane";
import { FIRST } from "./examples";
import { filled } from "./filling";
import { listTabs } from "./tabs";

const url = `${location.origin}/graphql`;
const send = createGraphiQLFetcher({
  url,
  // While the server restarts, no connection is opened at all, which graphql-ws does not retry by itself.
  wsClient: createClient({ url: url.replace(/^http/, "ws"), retryAttempts: 5, shouldRetry: () => true }),
});
const fetcher: typeof send = async (given, options) => {
  const { asked, ...document } = upToDate(given);
  // A connection of a browser that is not signed in would be tried again and again.
  if (isLive(document.documentAST) && !(await isSignedIn().catch(() => true))) return SIGNED_OUT;
  const answers = await send(asked, { ...options, ...document });
  return Symbol.asyncIterator in answers ? inWords(answers, isSignedIn) : answers;
};
// GraphiQL stores its tabs between visits; on the first, the variables editor does not take them from the tab.
const isFirstVisit = localStorage.getItem("graphiql:tabState") === null;
// A narrow menu leaves more room for documents. The width is stored when it is changed.
if (isFirstVisit) localStorage.setItem("graphiql:docExplorerFlex", "0.22");
const EXAMPLES_PLUGIN = { title: "Examples", icon: ExamplesIcon, content: ExamplesPane };
const PLUGINS = [HISTORY_PLUGIN, explorerPlugin({ showAttribution: false }), EXAMPLES_PLUGIN];
const isNarrow = matchMedia("(width < 640px)").matches;

const root = document.getElementById("root");
if (!user.get()) {
  // The dashboard signs in, and returns here afterwards.
  location.assign("/?next=/graphiql");
} else if (root) {
  listTabs(root);
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
      {...(isFirstVisit
        ? { initialVariables: variables, ...(isNarrow ? {} : { visiblePlugin: EXAMPLES_PLUGIN }) }
        : {})}
    >
      <GraphiQL.Logo>
        <a className="home" href="/">
          Aliquot
        </a>
      </GraphiQL.Logo>
    </GraphiQL>,
  );
}
