import { lazy, Suspense, useState } from "react";
import { Button, Dialog, DialogTrigger, Popover } from "react-aria-components";
import { Link } from "wouter";
import { signOut } from "../api/presence";
import { useObservable } from "../api/observable";
import { useIdentity } from "../identity/me";
import { Boundary } from "../parts/Boundary";
import { Check } from "../parts/Check";
import { useFormState } from "../parts/formState";
import { showNotice } from "../parts/notices";
import { Segments } from "../parts/Segments";
import { setNotifying, settings } from "./notifications";
import { useCloseOnBack } from "./onBack";
import { setTheme, theme } from "./theme";

const NoticeSettings = lazy(() => import("./NoticeSettings"));

const THEMES = [
  { id: "system", text: "System" },
  { id: "light", text: "Light" },
  { id: "dark", text: "Dark" },
] as const;

/** The signed-in user, with settings and sign-out. */
export function UserMenu({ name }: { readonly name: string }) {
  const me = useIdentity();
  const colours = useObservable(theme);
  const { isOn: isNotifying } = useObservable(settings);
  const [isOpen, setOpen] = useState(false);
  const [isEditing, setEditing] = useFormState("notices-open", false);
  const close = () => setOpen(false);
  useCloseOnBack(() => {
    close();
    setEditing(false);
  });
  const leave = async () => {
    close();
    const fault = await signOut();
    if (fault !== null) showNotice({ tone: "bad", text: fault });
  };
  return (
    <>
      <DialogTrigger isOpen={isOpen} onOpenChange={setOpen}>
        <Button className="button plain user" aria-label={`Account of ${name}`}>
          {name} <span aria-hidden="true">▾</span>
        </Button>
        <Popover className="popover" placement="bottom end">
          <Dialog className="user-menu stack" aria-label="Account">
            <dl>
              <dt>Name</dt>
              <dd>
                <b>{name}</b>
              </dd>
              <dt>Role</dt>
              <dd>
                {me?.role ?? "…"}
                {me?.scope ? `, by the scope of the key: ${me.scope}` : ""}
              </dd>
              <dt>Projects</dt>
              <dd>{me?.projects.join(", ") || "none"}</dd>
              <dt>Signed in with</dt>
              <dd>{meansOf(me?.key_id)}</dd>
            </dl>
            <Segments label="Theme" value={colours} options={THEMES} onChange={setTheme} />
            <Check
              text="Browser notifications of my sessions"
              isOn={isNotifying}
              onChange={(isOn) => void setNotifying(isOn).then(tellFault)}
            />
            <Link href="/admin?tab=access" onClick={close}>
              Keys and secrets
            </Link>
            <Button
              className="button"
              onPress={() => {
                close();
                setEditing(true);
              }}
            >
              Notice settings …
            </Button>
            <Button className="button" onPress={() => void leave()}>
              Sign out
            </Button>
          </Dialog>
        </Popover>
      </DialogTrigger>
      {isEditing ? (
        <Boundary place="notices">
          <Suspense>
            <NoticeSettings onClose={() => setEditing(false)} />
          </Suspense>
        </Boundary>
      ) : null}
    </>
  );
}

function tellFault(fault: string | null): void {
  if (fault !== null) showNotice({ tone: "bad", text: fault });
}

function meansOf(key: string | null | undefined): string {
  if (key === undefined) return "…";
  if (key === null) return "the server's token";
  return key.startsWith("oidc_") ? "a token of the identity provider" : `key …${key.slice(-6)}`;
}
