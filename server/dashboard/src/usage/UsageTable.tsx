import { percent } from "../format/amounts";
import { colourClass } from "../format/colours";
import { Link } from "wouter";
import { useIdentity } from "../identity/me";
import { mayOperate } from "../identity/rights";
import { figure, Table } from "../parts/Table";
import { sessionsOf } from "./OverTime";
import type { Used } from "./loading";

/** Usage by user and project: hours of a whole device, as charged by the policy. */
export function UsageTable({ rows }: { readonly rows: readonly Used[] }) {
  const isOperator = mayOperate(useIdentity());
  const most = Math.max(...rows.map((row) => row.gpu_hours_month), Number.MIN_VALUE);
  return (
    <Table
      className="stacked"
      columns={[
        "User",
        "Project",
        "This month",
        figure("GPU-hours", "Charged in this calendar month, UTC; a quota of GPU-hours counts these"),
        figure("Total", "Charged since the cluster began"),
        figure("Decayed", "Older usage counts less, with the policy's half-life; fair share orders by it"),
        figure("Share", "Part of all decayed usage"),
      ]}
    >
      {rows.map((row) => (
        <tr key={`${row.project}/${row.user}`}>
          <td>
            <Link href={sessionsOf("user", row.user)}>{row.user}</Link>
          </td>
          <td>
            <Link href={sessionsOf("project", row.project)}>{row.project}</Link>
            {isOperator ? (
              <Link
                className="quiet small quota-link"
                href={`/admin?tab=quotas&of=${encodeURIComponent(`project:${row.project}`)}`}
              >
                quota<span className="hidden"> of {row.project}</span>
              </Link>
            ) : null}
          </td>
          <td className="usage-bar">
            <span className={colourClass(row.user)} style={{ width: `${(100 * row.gpu_hours_month) / most}%` }} />
          </td>
          <td className="figure" data-label="GPU-hours">
            {row.gpu_hours_month.toFixed(2)}
          </td>
          <td className="figure" data-label="total">
            {row.gpu_hours.toFixed(2)}
          </td>
          <td className="figure" data-label="decayed">
            {row.gpu_hours_decayed.toFixed(2)}
          </td>
          <td className="figure" data-label="share">
            {percent(row.share)}
          </td>
        </tr>
      ))}
    </Table>
  );
}
