import { Component, useEffect, useState, type ReactNode } from "react";

interface Props {
  readonly children: ReactNode;
  /** A change of location renders the children again. */
  readonly place: string;
}

interface State {
  readonly message: string | null;
  readonly place: string;
}

/** Shows an error instead of a page that failed. A page of which a part could not be loaded is loaded again. */
export class Boundary extends Component<Props, State> {
  override state: State = { message: null, place: this.props.place };

  static getDerivedStateFromError(error: unknown): Partial<State> {
    return { message: error instanceof Error ? error.message : String(error) };
  }

  static getDerivedStateFromProps(props: Props, state: State): State | null {
    return props.place === state.place ? null : { message: null, place: props.place };
  }

  override render(): ReactNode {
    if (this.state.message === null) return this.props.children;
    if (/dynamically imported module|module script|preload CSS/i.test(this.state.message)) return <NotLoaded />;
    return <Failed text={`This page failed: ${this.state.message}`} />;
  }
}

const RETRY_MS = 2000;
/** A page that fails again sooner than this is not loaded again by itself. */
const AGAIN_MS = 30_000;
const LOADED_AT = "aliquot.page-loaded-again-at";

/** A page of which a part is missing: the server does not answer, or it has a newer dashboard. */
function NotLoaded() {
  const [isGivenUp] = useState(() => Date.now() - Number(sessionStorage.getItem(LOADED_AT)) < AGAIN_MS);
  useEffect(() => {
    if (isGivenUp) return;
    const timer = setInterval(() => {
      fetch("/healthz", { cache: "no-store" }).then(
        ({ ok }) => {
          if (!ok) return;
          clearInterval(timer);
          sessionStorage.setItem(LOADED_AT, String(Date.now()));
          location.reload();
        },
        () => undefined,
      );
    }, RETRY_MS);
    return () => clearInterval(timer);
  }, [isGivenUp]);
  const what = "A part of this page could not be loaded";
  return <Failed text={isGivenUp ? `${what}.` : `${what}. It is loaded as soon as the server answers.`} />;
}

function Failed({ text }: { readonly text: string }) {
  return (
    <div role="alert" className="note bad">
      <p>{text}</p>
      <p>
        <a href={location.pathname + location.search}>Reload</a>
      </p>
    </div>
  );
}
