import { Button } from "react-aria-components";
import { showNotice } from "./notices";

/** Copies a text; `what` names it in the notice: `The id`. */
export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  return (
    <Button className="button plain" aria-label={`Copy ${what.toLowerCase()}`} onPress={() => void copied(text, what)}>
      Copy
    </Button>
  );
}

/** Puts a text on the clipboard and says so. */
export async function copied(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    showNotice({ tone: "good", text: `${what} is on the clipboard.` });
  } catch {
    showNotice({ tone: "bad", text: "The browser does not allow copying. Select the text and copy it." });
  }
}
