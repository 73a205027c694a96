/** A document to run as it stands. In its variables, "<newest session>" and the like are filled in when it is chosen. */
export interface Example {
  readonly title: string;
  readonly query: string;
  readonly variables?: string;
}

export interface Group {
  readonly name: string;
  readonly examples: readonly Example[];
}
