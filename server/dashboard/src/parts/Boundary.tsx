import { Component, type ReactNode } from "react";

interface Props {
  readonly children: ReactNode;
  /** Another place is another try. */
  readonly place: string;
}

interface State {
  readonly message: string | null;
  readonly place: string;
}

/** Keeps a page that broke from taking the others with it. A part that is gone was replaced by a newer build. */
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
        <p>{isReplaced ? "The server has a newer dashboard." : `This page broke: ${this.state.message}`}</p>
        <p>
          <a href={this.props.place}>Load it again</a>
        </p>
      </div>
    );
  }
}
