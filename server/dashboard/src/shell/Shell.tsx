import { useEffect, useRef, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { useOpenAlerts } from "../alerts/open";
import { pending } from "../api/feed";
import { useObservable } from "../api/observable";
import { ConnectionBar, ConnectionDot, useIsStale } from "./ConnectionBar";
import { Boundary } from "../parts/Boundary";
import { MeContext, useMe } from "../identity/me";
import { maySubmit } from "../identity/rights";
import { user } from "../api/presence";
import { NewVersion } from "./NewVersion";
import { NoticeLine } from "./NoticeLine";
import { Notifier } from "./Notifier";
import { Shortcuts } from "./Shortcuts";
import { setTitle } from "./title";
import { UserMenu } from "./UserMenu";

const PAGES = [
  { path: "/", name: "Cluster" },
  { path: "/sessions", name: "Sessions" },
  { path: "/calendar", name: "Calendar" },
  { path: "/submit", name: "Submit" },
  { path: "/what-if", name: "What if" },
  { path: "/usage", name: "Usage" },
  { path: "/admin", name: "Admin" },
] as const;

function titleOf(location: string): string {
  return (
    PAGES.find(({ path }) => path === location)?.name ?? (location.startsWith("/sessions/") ? "Session" : "Not found")
  );
}

/** The frame of every page: navigation, connection state and messages. */
export function Shell({ children }: { readonly children: ReactNode }) {
  const [location] = useLocation();
  const isStale = useIsStale();
  const waiting = useObservable(pending);
  const alerts = useOpenAlerts().data?.length ?? 0;
  const name = useObservable(user);
  const me = useMe().data;
  const pages = PAGES.filter(({ path }) => path !== "/submit" || me === null || maySubmit(me));
  const first = useRef(location);
  useEffect(() => {
    // Makes screen readers announce the new page.
    if (location !== first.current) document.getElementById("content")?.focus({ preventScroll: true });
    first.current = "";
  }, [location]);
  // A session's page puts the name there as soon as it is known.
  useEffect(() => setTitle(titleOf(location)), [location]);
  return (
    <MeContext value={me}>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="top">
        <Link href="/" className="brand">
          <img src="/mark.svg" alt="" width="18" height="18" /> Aliquot
        </Link>
        {me?.is_demo ? (
          <span
            className="demo"
            title="The users, their week of history and the load are invented, and so is every reading."
          >
            Demo<span className="hidden">: users, history, load and readings are invented</span>
          </span>
        ) : null}
        <nav aria-label="Pages">
          {pages.map(({ path, name }) => (
            <Link key={path} href={path} aria-current={path === location ? "page" : undefined}>
              {name}
              {path === "/" && alerts ? (
                <span className="count bad" title="Open alerts">
                  {alerts}
                  <span className="hidden"> open alerts</span>
                </span>
              ) : null}
              {path === "/sessions" && waiting ? <span className="count">{waiting}</span> : null}
            </Link>
          ))}
          <a href="/graphiql">GraphiQL</a>
          <a href="/docs/">Docs</a>
        </nav>
        <ConnectionDot />
        <UserMenu name={name} />
      </header>
      <ConnectionBar />
      <NewVersion />
      <main id="content" tabIndex={-1} className={isStale ? "content stale" : "content"}>
        <Boundary place={location}>{children}</Boundary>
      </main>
      <NoticeLine />
      <Shortcuts />
      <Notifier />
    </MeContext>
  );
}
