import { useState } from "react";
import { Button, FieldError, Form, Input, Label, TextField } from "react-aria-components";
import { signIn } from "../api/presence";

/** Signs in with a key, or with the server's token. */
export function SignIn() {
  const [token, setToken] = useState("");
  const [refusal, setRefusal] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setRefusal(await signIn(token.trim()));
    setBusy(false);
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
          autoFocus
        >
          <Label>Key or token</Label>
          <Input />
          <FieldError className="wrong">{refusal}</FieldError>
        </TextField>
        <Button className="button main" type="submit" isDisabled={token.trim() === "" || isBusy}>
          Sign in
        </Button>
      </Form>
    </main>
  );
}
