import { useEffect, useRef, useState } from "react";
import { Button, FieldError, Form, Input, Label, TextField } from "react-aria-components";
import { noticeSignIn, provider, signIn, signInAtProvider } from "../api/presence";
import { seen } from "../api/seen";

/** Signs in at the identity provider where there is one, with a key, or with the server's token. */
export function SignIn() {
  const [token, setToken] = useState("");
  const [refusal, setRefusal] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    const look = () => void (seen.get() && noticeSignIn());
    window.addEventListener("focus", look);
    const unsee = seen.watch(look);
    return () => {
      window.removeEventListener("focus", look);
      unsee();
    };
  }, []);
  const field = useRef<HTMLInputElement>(null);
  const submit = async () => {
    setBusy(true);
    setRefusal(null); // the same text again would not be announced
    const reason = await signIn(token.trim());
    setRefusal(reason);
    setBusy(false);
    // The pressed button was disabled, and a disabled one loses the focus.
    if (reason !== null) field.current?.focus();
  };
  return (
    <main className="sign-in">
      <Form
        className="panel stack"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <h1>Sign in to Aliquot</h1>
        {provider ? (
          <>
            <Button className="button main" autoFocus onPress={signInAtProvider}>
              Sign in with {provider}
            </Button>
            <p className="quiet">Or with a key:</p>
          </>
        ) : null}
        <p className="quiet">
          You get a key from an admin of the cluster. The server's own token is in the file <code>token</code> in its
          data folder; at start it prints an address that signs a browser in once.
        </p>
        <TextField
          className="field"
          type="password"
          value={token}
          onChange={(next) => {
            setToken(next);
            setRefusal(null);
          }}
          isInvalid={refusal !== null}
          autoComplete="current-password"
          autoFocus={!provider}
        >
          <Label>Key or token</Label>
          <Input ref={field} />
          {refusal === null ? null : (
            <div role="alert">
              <FieldError className="wrong">{refusal}</FieldError>
            </div>
          )}
        </TextField>
        <Button
          className={provider ? "button" : "button main"}
          type="submit"
          isDisabled={token.trim() === "" || isBusy}
        >
          Sign in
        </Button>
      </Form>
    </main>
  );
}
