import type { ReactNode } from "react";

/** A placeholder for an empty list: what it means, and what to do. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}
