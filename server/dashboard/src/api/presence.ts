import { Observable } from "./observable";

const PAGES_NEXT = new Set(["/graphiql"]);

/** Who the server takes us for; empty is nobody. The page says so, as it was when it was loaded. */
export const user = new Observable(document.querySelector<HTMLMetaElement>('meta[name="aliquot-user"]')?.content ?? "");

/** The server does not know us any more. */
export function signedOut(): void {
  user.set("");
}

/** Resolves when somebody is signed in. */
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
 * Exchanges a key or the token for a cookie that scripts cannot read. It is kept nowhere.
 * Returns null, or why not.
 */
export async function signIn(token: string): Promise<string | null> {
  try {
    const asked = await fetch("/login-code", { method: "POST", headers: { authorization: `Bearer ${token}` } });
    if (asked.status === 401) return "This is neither a key that holds nor the server's token.";
    if (!asked.ok) return `The server answered ${asked.status}.`;
    const { path } = (await asked.json()) as { path: string };
    // The answer leads to the page, which says who we are now.
    const page = await (await fetch(path)).text();
    const meta = new DOMParser().parseFromString(page, "text/html").querySelector('meta[name="aliquot-user"]');
    const name = meta?.getAttribute("content");
    if (!name) return "The server does not know the cookie that it gave. Are cookies allowed here?";
    const next = new URLSearchParams(location.search).get("next") ?? "";
    if (PAGES_NEXT.has(next)) location.assign(next);
    user.set(name);
  } catch {
    return "The server cannot be reached.";
  }
  return null;
}
