import { useState } from "react";
import { Button, Dialog, DialogTrigger, Form, Popover } from "react-aria-components";
import { Link } from "wouter";
import { useObservable } from "../api/observable";
import { useIdentity } from "../identity/me";
import { maySubmit } from "../identity/rights";
import { Text } from "../parts/Text";
import { dropView, saveView, savedViews } from "./views";

interface Props {
  /** The search part of the present address. */
  readonly search: string;
}

/** Sets of filters: ready ones, and those that this browser keeps. */
export function ViewsMenu({ search }: Props) {
  const me = useIdentity();
  const saved = useObservable(savedViews);
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState("");
  const mine = me ? `owner=${encodeURIComponent(me.name)}` : "";
  const ready = [
    ...(me && maySubmit(me)
      ? [
          { name: "Mine, running", search: `state=running&${mine}` },
          { name: "Mine, failed", search: `state=failed&${mine}` },
        ]
      : []),
    { name: "Held back by a quota", search: "reason=quota" },
    { name: "Largest running", search: "state=running&sort=gpus_desc" },
  ];
  const close = () => setOpen(false);
  return (
    <DialogTrigger isOpen={isOpen} onOpenChange={setOpen}>
      <Button className="button">
        Views <span aria-hidden="true">▾</span>
      </Button>
      <Popover className="popover" placement="bottom end">
        <Dialog className="views-menu stack" aria-label="Views">
          <ul>
            {[...ready, ...saved].map((view, index) => (
              <li key={`${index}/${view.name}`} className="row">
                <Link href={`/sessions?${view.search}`} onClick={close}>
                  {view.name}
                </Link>
                {index >= ready.length ? (
                  <Button
                    className="button plain end"
                    aria-label={`Delete the view ${view.name}`}
                    onPress={() => dropView(view.name)}
                  >
                    <span aria-hidden="true">✕</span>
                  </Button>
                ) : null}
              </li>
            ))}
          </ul>
          <Form
            className="row"
            onSubmit={(event) => {
              event.preventDefault();
              saveView({ name, search });
              setName("");
            }}
          >
            <Text label="Save these filters as" value={name} onChange={setName} />
            <Button className="button" type="submit" isDisabled={name.trim() === ""}>
              Save
            </Button>
          </Form>
          <p className="quiet small">Kept in this browser. For a colleague, copy the address of the page.</p>
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}
