import { useState } from "react";
import { Button } from "react-aria-components";
import { useLocation } from "wouter";
import { useIdentity } from "../identity/me";
import { maySubmit } from "../identity/rights";

/** Starts JupyterLab on a quarter of a GPU, and opens it when it runs. */
export function NotebookButton() {
  const me = useIdentity();
  const [, go] = useLocation();
  const [isBusy, setBusy] = useState(false);
  const start = async () => {
    setBusy(true);
    try {
      const { submitNotebook } = await import("../submit/presets");
      const address = await submitNotebook();
      if (address) go(address);
    } finally {
      setBusy(false);
    }
  };
  if (me === null || !maySubmit(me)) return null;
  return (
    <Button className="button" isDisabled={isBusy} onPress={() => void start()}>
      New notebook
    </Button>
  );
}
