import { useEffect } from "react";
import { useIdentity } from "../identity/me";
import { mayOpen } from "../identity/rights";
import type { Session } from "./loading";

/** The web services of a session, which only its owner opens. `?open=NAME` in the address opens one when it runs. */
export function Services({ session }: { readonly session: Session }) {
  const isMine = mayOpen(useIdentity(), session);
  const wanted = new URLSearchParams(location.search).get("open");
  const next = isMine ? session.services.find(({ name, state }) => name === wanted && state === "running") : undefined;
  useEffect(() => {
    if (!next) return;
    history.replaceState(history.state, "", location.pathname);
    location.assign(next.url);
  }, [next?.url]);
  if (session.services.length === 0) return null;
  return (
    <section className="panel row" aria-label="Services">
      <h2>Services</h2>
      {session.services.map(({ name, port, url, state }) =>
        isMine && state === "running" ? (
          <a key={name} className="button" href={url} target="_blank" rel="noreferrer">
            Open {name}
          </a>
        ) : (
          <span key={name} className="quiet">
            {name}
            {port ? `, port ${port}` : ""}: {state}
          </span>
        ),
      )}
    </section>
  );
}
