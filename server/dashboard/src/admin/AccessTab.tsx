import { ask } from "../api/client";
import { useLive } from "../api/live";
import { ApiKeysDocument, UsersDocument } from "../generated/graphql";
import { useMe, type Me } from "../identity/me";
import { mayOperate } from "../identity/rights";
import { Faults } from "../parts/Faults";
import type { User } from "./access/draft";
import { KeysPanel } from "./access/KeysPanel";
import { SecretsPanel } from "./access/SecretsPanel";
import { UsersPanel } from "./access/UsersPanel";

/** The viewer's secrets, and users, their roles and their keys. */
export function AccessTab() {
  const live = useMe();
  const me = live.data;
  return (
    <div className="stack">
      <Faults of={live} />
      {me ? (
        <p className="signed-in-as">
          You are signed in as <b>{me.name}</b>, {me.role}
          {me.key_id === null ? ", with the server's own token" : ""}
          {me.scope ? `, by the scope of the key in use: ${me.scope}` : ""}.
        </p>
      ) : null}
      {me ? <SecretsPanel me={me} key={me.name} /> : null}
      {me ? <UsersAndKeys me={me} /> : null}
      <section className="panel stack prose" aria-label="Agents' keys">
        <h2>Agents' keys</h2>
        <p>Every agent that dials in has its own key. Create, list and revoke them on the server's host:</p>
        <pre className="command">aliquot agent key --help</pre>
      </section>
    </div>
  );
}

const NO_USERS: readonly User[] = [];

/** The users, for operators, and the keys, which are rejected while their users are disabled. */
function UsersAndKeys({ me }: { readonly me: Me }) {
  const isAdmin = me.role === "admin";
  const isOperator = mayOperate(me);
  const users = useLive(async () => (isOperator ? (await ask(UsersDocument, {})).users : NO_USERS), "users", {
    everyMs: 10_000,
  });
  const keys = useLive(async () => (await ask(ApiKeysDocument, {})).api_keys, "api_keys", { everyMs: 10_000 });
  const refresh = () => {
    users.refresh();
    keys.refresh();
  };
  return (
    <>
      {isOperator ? <UsersPanel live={{ ...users, refresh }} isAdmin={isAdmin} /> : null}
      <KeysPanel live={keys} users={users.data ?? NO_USERS} isAdmin={isAdmin} />
    </>
  );
}
