import { useEffect } from "react";
import { Button } from "react-aria-components";
import { onEvent } from "../api/feed";
import { Observable, useObservable } from "../api/observable";

/** Whether the server has another dashboard than this tab. */
const isOutdated = new Observable(false);

/** Compares this tab with the server's page; without an answer, the next connection does. */
async function compare(): Promise<void> {
  try {
    const answer = await fetch("/", { cache: "no-store" });
    // The page of a proxy, for example.
    if (!answer.ok || answer.redirected) return;
    const theirs = programOf(new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (theirs) isOutdated.set(theirs !== programOf(document));
  } catch {
    return;
  }
}

/** Says that the server has a newer dashboard, as after an upgrade, for which it was restarted. */
export function NewVersion() {
  const isShown = useObservable(isOutdated);
  useEffect(() => onEvent((event) => void (event === "reconnected" && compare())), []);
  return (
    <div role="status" className={isShown ? "connection newer row" : "connection"}>
      {isShown ? (
        <>
          <span>
            The server has a new version of this page. After a reload, forms still have what you typed, except secrets
            and files.
          </span>
          <Button className="button" onPress={() => location.reload()}>
            Reload
          </Button>
        </>
      ) : null}
    </div>
  );
}

/** The address of a page's program, whose name changes with its content; null if it has none, as without a build. */
function programOf(page: ParentNode): string | null {
  return page.querySelector('script[type="module"][src]')?.getAttribute("src") ?? null;
}
