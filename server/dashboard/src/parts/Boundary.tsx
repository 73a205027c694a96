import { Component, type ReactNode } from "react";

interface Props {
  readonly children: ReactNode;
  /** A change of location renders the children again. */
  readonly place: string;
}

interface State {
  readonly message: string | null;
  readonly place: string;
}

/** Shows an error instead of a page that failed. If a module is missing, the server has a newer build. */
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
    const isReplaced = /dynamically imported module|module script/i.test(this.state.message);
    return (
      <div role="alert" className="note bad">
        <p>{isReplaced ? "The server has a newer dashboard." : `This page failed: ${this.state.message}`}</p>
        <p>
          <a href={this.props.place}>Reload</a>
        </p>
      </div>
    );
  }
}
