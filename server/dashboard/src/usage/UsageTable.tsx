import { percent } from "../format/amounts";
import { colourClass } from "../format/colours";
import { figure, Table } from "../parts/Table";
import type { Used } from "./loading";

/** Usage by user and project: hours of a whole device, as charged by the policy. */
export function UsageTable({ rows }: { readonly rows: readonly Used[] }) {
  const most = Math.max(...rows.map((row) => row.gpu_hours_month), Number.MIN_VALUE);
  return (
    <Table
      columns={[
        "User",
        "Project",
        "This month",
        figure("GPU-hours"),
        figure("Total"),
        figure("Decayed"),
        figure("Share"),
      ]}
    >
      {rows.map((row) => (
        <tr key={`${row.project}/${row.user}`}>
          <td>{row.user}</td>
          <td>{row.project}</td>
          <td className="usage-bar">
            <span className={colourClass(row.user)} style={{ width: `${(100 * row.gpu_hours_month) / most}%` }} />
          </td>
          <td className="figure">{row.gpu_hours_month.toFixed(2)}</td>
          <td className="figure">{row.gpu_hours.toFixed(2)}</td>
          <td className="figure">{row.gpu_hours_decayed.toFixed(2)}</td>
          <td className="figure">{percent(row.share)}</td>
        </tr>
      ))}
    </Table>
  );
}
