import { lazy, Suspense } from "react";
import { Button } from "react-aria-components";
import { useIdentity } from "../identity/me";
import { maySubmit } from "../identity/rights";
import { useFormState } from "../parts/formState";

const NotebookDialogue = lazy(() => import("../submit/NotebookDialogue"));

/** Starts JupyterLab after showing its resources. */
export function NotebookButton() {
  const me = useIdentity();
  const [isOpen, setOpen] = useFormState("notebook-open", false);
  if (me === null || !maySubmit(me)) return null;
  return (
    <>
      <Button className="button" onPress={() => setOpen(true)}>
        New notebook …
      </Button>
      {isOpen ? (
        <Suspense>
          <NotebookDialogue onClose={() => setOpen(false)} />
        </Suspense>
      ) : null}
    </>
  );
}
