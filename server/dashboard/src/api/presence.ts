import { Observable } from "./observable";

const PAGES_NEXT = new Set(["/graphiql"]);

/** The signed-in user, as of the page's load; empty if not signed in. */
export const user = new Observable(metaOf("user"));

/** Tells the other tabs of this browser, which send the same cookie, who has signed in or that the sign-in has ended. */
const tabs = new BroadcastChannel("aliquot-user");
tabs.onmessage = ({ data }) => {
  if (data) user.set(String(data));
  else void noticeSignOut();
};
// Without a user this may be a page that a link of another site opened, for which browsers hold the cookie back.
if (user.get()) tabs.postMessage(user.get());

/** The identity provider to sign in with; empty if there is none. */
export const provider = metaOf("provider");

/** Signs in at the identity provider; it leads back to the present page. */
export function signInAtProvider(): void {
  location.assign(`/login/provider?next=${encodeURIComponent(nextPage() || location.pathname + location.search)}`);
}

/** The page beside the dashboard that sent the browser here to sign in; empty if none did. */
function nextPage(): string {
  const next = new URLSearchParams(location.search).get("next") ?? "";
  return PAGES_NEXT.has(next) ? next : "";
}

function metaOf(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="aliquot-${name}"]`)?.content ?? "";
}

/** The server no longer accepts the cookie. */
export function signedOut(): void {
  user.set("");
}

/** Ends the sign-in on the server, for every tab of this browser. Returns null, or the reason of a failure. */
export async function signOut(): Promise<string | null> {
  try {
    const answer = await fetch("/logout", { method: "POST" });
    if (!answer.ok) return `You are still signed in: the server answered ${answer.status}. Try again.`;
  } catch {
    return "You are still signed in: the server cannot be reached. Try again.";
  }
  user.set("");
  tabs.postMessage("");
  sessionStorage.clear();
  // A new document: nothing of the user stays in memory, and their sockets are closed.
  location.assign("/");
  return null;
}

/** Notices that another tab of this browser has signed in, for which this one needs no key. */
export async function noticeSignIn(): Promise<void> {
  try {
    const name = await userOf("/");
    if (!name || user.get()) return;
    user.set(name);
    tabs.postMessage(name);
  } catch {
    // The server cannot be reached: the next look may find it.
  }
}

/** Asks whether the sign-in has ended for this tab too. */
async function noticeSignOut(): Promise<void> {
  try {
    user.set(await userOf("/"));
  } catch {
    // The server cannot be reached: it refuses the next request.
  }
}

/** The signed-in user that a page of the dashboard names; empty if it names none. */
async function userOf(path: string): Promise<string> {
  return userIn(await (await fetch(path)).text());
}

function userIn(page: string): string {
  const meta = new DOMParser().parseFromString(page, "text/html").querySelector('meta[name="aliquot-user"]');
  return meta?.getAttribute("content") ?? "";
}

/** Resolves when a user is signed in. */
export async function signedIn(): Promise<void> {
  if (user.get()) return;
  await new Promise<void>((resolve) => {
    const stop = user.watch(() => {
      if (!user.get()) return;
      stop();
      resolve();
    });
  });
}

/**
 * Exchanges a key or the token, which is not stored, for a cookie that scripts cannot read.
 * Returns null, or the reason of a failure.
 */
export async function signIn(token: string): Promise<string | null> {
  try {
    // The form leads to the start page, which names the signed-in user.
    const answer = await fetch("/login", { method: "POST", body: new URLSearchParams({ key: token }) });
    if (answer.status === 401) return "This is neither a valid key nor the server's token.";
    if (!answer.ok) return `The server answered ${answer.status}.`;
    const name = userIn(await answer.text());
    if (!name) return "The cookie was not accepted. Does this browser allow cookies?";
    if (nextPage()) location.assign(nextPage());
    user.set(name);
    tabs.postMessage(name);
  } catch {
    return "The server cannot be reached.";
  }
  return null;
}
