import { useEffect, useRef, type ReactNode, type SubmitEvent } from "react";
import { Button, Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { isRepeatedClick } from "../api/clicks";

interface Props {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
  /** Buttons beside the one that closes. Enter in a field of one line presses the one of type `submit`. */
  readonly actions?: ReactNode;
  readonly closing?: string;
  /** Whether only the button closes it: what it shows is lost then. */
  readonly isKept?: boolean;
}

/** A modal dialogue; Escape and a click outside close it, unless it is kept. */
export function Dialogue({ title, isOpen, onClose, children, actions, closing = "Close", isKept = false }: Props) {
  return (
    <ModalOverlay
      className="veil"
      isOpen={isOpen}
      onOpenChange={(open) => !open && onClose()}
      isDismissable={!isKept}
      // The second click of a double click on the button that opened it.
      shouldCloseOnInteractOutside={() => !isRepeatedClick()}
      isKeyboardDismissDisabled={isKept}
    >
      <Modal>
        <Dialog className="dialog">
          <Fields>
            <Heading slot="title">{title}</Heading>
            {children}
            <div className="actions">
              <Button className="button" onPress={onClose}>
                {closing}
              </Button>
              {actions}
            </div>
          </Fields>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

const FIELDS = ".field input, .field textarea, .choice > button";

/** A form whose first field has the focus. */
function Fields({ children }: { readonly children: ReactNode }) {
  const form = useRef<HTMLFormElement>(null);
  const hasFocused = useRef(false);
  // Not only at first: fields may be shown when their values are loaded.
  useEffect(() => {
    if (hasFocused.current || form.current?.contains(document.activeElement)) return;
    const field = form.current?.querySelector<HTMLElement>(FIELDS);
    field?.focus();
    hasFocused.current = Boolean(field);
  });
  return (
    <form ref={form} className="stack" noValidate onSubmit={keepHere}>
      {children}
    </form>
  );
}

/** The pressed button acts; a form around the dialogue is not submitted. */
function keepHere(event: SubmitEvent): void {
  event.preventDefault();
  event.stopPropagation();
}
