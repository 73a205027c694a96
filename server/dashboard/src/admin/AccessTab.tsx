import { useObservable } from "../api/observable";
import { user } from "../api/presence";

/** Who may do what, as far as there is an answer. */
export function AccessTab() {
  const name = useObservable(user);
  return (
    <div className="groups">
      <section className="panel stack prose" aria-label="People">
        <h2>People</h2>
        <p>
          You are signed in as <b>{name}</b>. There is one token, in the file <code>token</code> of the server's data
          folder; who has it is the administrator.
        </p>
        <p>An address that signs another browser in, once:</p>
        <pre className="command">{`curl -s -X POST ${location.origin}/login-code -H "Authorization: Bearer $TOKEN"`}</pre>
      </section>
      <section className="panel stack prose" aria-label="Agents' keys">
        <h2>Agents' keys</h2>
        <p>
          Every agent that dials in has a key of its own. They are made, listed and taken back on the server's host:
        </p>
        <pre className="command">aliquot agent key --help</pre>
      </section>
    </div>
  );
}
