import type { ReactNode } from "react";
import { Button, Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";

interface Props {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
  /** Buttons beside the one that closes. */
  readonly actions?: ReactNode;
  readonly closing?: string;
}

/** A modal dialogue; Escape and a click outside close it. */
export function Dialogue({ title, isOpen, onClose, children, actions, closing = "Close" }: Props) {
  return (
    <ModalOverlay className="veil" isOpen={isOpen} onOpenChange={(open) => !open && onClose()} isDismissable>
      <Modal>
        <Dialog className="dialog stack">
          <Heading slot="title">{title}</Heading>
          {children}
          <div className="actions">
            <Button className="button" onPress={onClose}>
              {closing}
            </Button>
            {actions}
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
