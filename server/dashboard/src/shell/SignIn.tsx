import { useState } from "react";
import { Button, FieldError, Form, Input, Label, TextField } from "react-aria-components";
import { signIn } from "../api/presence";

/** Takes a key, or the server's token. */
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
          An admin of the cluster gives you a key. The server itself has a token, in the file <code>token</code> in its
          data folder, and printed an address that signs a browser in once.
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
