"""The result, for people as tables, for programs as JSON."""

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from aliquot.cli.main_job.cluster_view import granted_shares
from aliquot.cli.main_job.course import Course
from aliquot.cli.main_job.findings import Finding
from aliquot.cli.main_job.tasks import TASKS, Task
from aliquot_schema.slots import format_milli

STYLE = {"completed": "green", "failed": "yellow", "canceled": "yellow"}


def print_report(console: Console, *, course: Course, findings: list[Finding]) -> None:
    """Print one row a session, then one a promise."""
    console.print(_sessions_table(course))
    table = Table("promise", "kept", "what was seen", title="What was checked", title_justify="left")
    for finding in findings:
        kept = "[green]yes[/]" if finding.kept else "[bold red]NO[/]"
        table.add_row(finding.promise, kept, finding.detail)
    console.print(table)


def as_json(*, course: Course, findings: list[Finding]) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "ok": all(finding.kept for finding in findings),
        "sessions": [_session_json(task, course.sessions[task.name]) for task in TASKS],
        "findings": [
            {"promise": finding.promise, "kept": finding.kept, "detail": finding.detail} for finding in findings
        ],
    }


def _sessions_table(course: Course) -> Table:
    table = Table(title="Sessions, in the order of submission", title_justify="left")
    for heading in ("session", "GPUs", "state", "exit", "waited", "ran", "devices (share)"):
        table.add_column(heading, justify="right" if heading in {"GPUs", "exit", "waited", "ran"} else "left")
    for task in TASKS:
        row = _session_json(task, course.sessions[task.name])
        state = f"[{STYLE.get(row['state'], 'red')}]{row['state']}[/]"
        exit_code = "" if row["exit_code"] is None else str(row["exit_code"])
        waited, ran = (f"{row[key]:.1f} s" if row[key] is not None else "" for key in ("waited_s", "ran_s"))
        table.add_row(task.name, task.asked, state, exit_code, waited, ran, "\n".join(_lines(row["kernels"])))
    return table


def _lines(kernels: list[dict[str, Any]]) -> list[str]:
    """One line an agent: `node-a  8 devices`, or the devices by name when there are few."""
    return [f"{kernel['agent_id']}: {_devices(kernel['shares'])}" for kernel in kernels]


def _devices(shares: dict[str, str]) -> str:
    if len(shares) > 2:
        return f"{len(shares)} devices"
    return ", ".join(f"...{id[-4:]} ({share})" for id, share in shares.items())


def _session_json(task: Task, session: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": task.name,
        "id": session["id"],
        "asked": task.asked,
        "state": session["state"],
        "exit_code": session["exit_code"],
        "waited_s": _seconds(session["queued_at"], session["scheduled_at"]),
        "ran_s": _seconds(session["started_at"], session["ended_at"]),
        "kernels": [
            {
                "rank": kernel["rank"],
                "agent_id": kernel["agent_id"],
                "shares": {id: format_milli(share) for id, share in granted_shares(kernel["resource_spec"]).items()},
            }
            for kernel in session["kernels"]
        ],
    }


def _seconds(start: str | None, end: str | None) -> float | None:
    if start is None or end is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
