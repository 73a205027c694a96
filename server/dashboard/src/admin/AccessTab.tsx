import { Faults } from "../parts/Faults";
import { KeysPanel } from "./access/KeysPanel";
import { UsersPanel } from "./access/UsersPanel";
import { useMe } from "../identity/me";

/** Users, their roles and their keys. */
export function AccessTab() {
  const live = useMe();
  const me = live.data;
  const isAdmin = me?.role === "admin";
  return (
    <div className="stack">
      <Faults of={live} />
      {me ? (
        <p>
          You are signed in as <b>{me.name}</b>, {me.role}
          {me.key_id === null ? ", with the server's own token" : ""}.
        </p>
      ) : null}
      {isAdmin || me?.role === "operator" ? <UsersPanel isAdmin={isAdmin} /> : null}
      {me ? <KeysPanel isAdmin={isAdmin} /> : null}
      <section className="panel stack prose" aria-label="Agents' keys">
        <h2>Agents' keys</h2>
        <p>Every agent that dials in has its own key. Create, list and revoke them on the server's host:</p>
        <pre className="command">aliquot agent key --help</pre>
      </section>
    </div>
  );
}
