import { useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useRef, useState } from "react";
import { user } from "../api/presence";
import { ask } from "./asking";
import type { Example } from "./example";
import { GROUPS } from "./examples";
import { filled } from "./filling";

const QUERIES = new Set(GROUPS.flatMap(({ examples }) => examples.map(({ query }) => query)));

/** The menu of examples, beside GraphiQL's own panes. */
export function ExamplesPane() {
  const { addTab } = useGraphiQLActions();
  const queryEditor = useGraphiQL((state) => state.queryEditor);
  const variableEditor = useGraphiQL((state) => state.variableEditor);
  const [chosen, setChosen] = useState("");
  const latest = useRef("");

  async function choose({ title, query, variables }: Example) {
    setChosen(title);
    latest.current = title;
    // If the server is unreachable, the example opens without values.
    const given = variables ? await filled(variables, user.get(), ask).catch(() => variables) : "";
    // Filling in may take a while; if another example was chosen meanwhile, that one wins.
    if (latest.current !== title) return;
    // An unchanged example is replaced by the next one; an edited one keeps its tab.
    if (!QUERIES.has(queryEditor?.getValue() ?? "")) addTab();
    queryEditor?.setValue(query);
    variableEditor?.setValue(given);
  }

  return (
    <section aria-label="Examples" className="examples">
      <div className="graphiql-doc-explorer-title">Examples</div>
      {GROUPS.map(({ name, examples }) => (
        <details key={name} open={name === GROUPS[0]?.name || examples.some(({ title }) => title === chosen)}>
          <summary>{name}</summary>
          <ul>
            {examples.map((example) => (
              <li key={example.title}>
                <button type="button" aria-pressed={example.title === chosen} onClick={() => void choose(example)}>
                  {example.title}
                </button>
                <a href={`/docs/${example.page}`}>
                  Docs<span className="examples-of"> about {example.title}</span>
                </a>
              </li>
            ))}
          </ul>
        </details>
      ))}
    </section>
  );
}

/** The icon in GraphiQL's sidebar. */
export function ExamplesIcon() {
  return (
    <svg
      viewBox="0 0 16 16"
      width="16"
      height="16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      aria-hidden="true"
    >
      <path d="M2 3.5h2M2 8h2M2 12.5h2M6.5 3.5H14M6.5 8H14M6.5 12.5H14" />
    </svg>
  );
}
