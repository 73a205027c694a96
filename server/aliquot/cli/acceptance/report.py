"""Report of the acceptance run: one finding per promise, with its evidence, as tables or as JSON."""

from datetime import datetime
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from aliquot.cli.acceptance.checks import live_kernels
from aliquot.cli.acceptance.cluster_view import granted_shares
from aliquot.cli.acceptance.jobs import RESISTING, TASKS, Task
from aliquot.cli.acceptance.run import AcceptanceRun
from aliquot_schema.resources.slots import format_milli
from aliquot_schema.states import SessionState

BEGINNING = [SessionState.QUEUED, SessionState.RUNNING]


class Finding(Struct, frozen=True, kw_only=True):
    """A promise, and whether it was kept."""

    promise: str
    kept: bool
    detail: str


def findings(run: AcceptanceRun) -> list[Finding]:
    """Check all promises."""
    return [_ends(run), _order(run), _outputs(run), _maps(run), _held(run), _nothing_left(run)]


def _ends(run: AcceptanceRun) -> Finding:
    wrong = []
    for task in TASKS:
        moves = [state for state in run.moves[run.ids[task.name]] if state in {*BEGINNING, task.ends}]
        session = run.sessions[task.name]
        if moves != [*BEGINNING, task.ends] or session["exit_code"] != task.exit_code:
            states = " > ".join(run.moves[run.ids[task.name]])
            wrong.append(f"{task.name} went {states}, exit code {session['exit_code']}")
    detail = "; ".join(wrong) or f"{len(TASKS)} sessions went queued > running > their end, with their own exit codes"
    return Finding(promise="every session ends as it should", kept=not wrong, detail=detail)


def _order(run: AcceptanceRun) -> Finding:
    names = {session_id: name for name, session_id in run.ids.items()}
    order = [names[session_id] for session_id in run.scheduled]
    kept = order == [task.name for task in TASKS]
    return Finding(promise="first come, first served", kept=kept, detail=" ".join(order))


def _outputs(run: AcceptanceRun) -> Finding:
    wrong = []
    for task in TASKS:
        for kernel in run.sessions[task.name]["kernels"]:
            granted = sorted(granted_shares(kernel["resource_spec"]))
            printed = _printed_devices(run.outputs[task.name, kernel["rank"]])
            if printed != granted:
                wrong.append(f"{task.name} rank {kernel['rank']} was granted {granted} and printed {printed}")
    detail = "; ".join(wrong) or f"{len(run.outputs)} processes printed exactly the devices they were granted"
    kept = not wrong and len(run.outputs) == sum(task.cluster_size for task in TASKS)
    return Finding(promise="every process sees its devices alone", kept=kept, detail=detail)


def _maps(run: AcceptanceRun) -> Finding:
    check = run.check
    detail = (
        f"{check.compared} comparisons at {run.events} events, {check.from_processes_alone} of them from live "
        f"processes alone, {len(check.differences)} differences"
    )
    if check.differences:
        detail += f"; first: {check.differences[0]}"
    kept = not check.differences and check.compared >= run.events > 0 and check.from_processes_alone > 0
    return Finding(promise="gpu_alloc_map equals the sum of the live processes", kept=kept, detail=detail)


def _held(run: AcceptanceRun) -> Finding:
    session = run.sessions[RESISTING.name]
    gone = all(kernel["state"] == "exited" for kernel in session["kernels"]) and not session["holds_devices"]
    detail = f"seen held {run.held_after_cancel} times after cancel, then free: {'yes' if gone else 'no'}"
    return Finding(
        promise="a canceled session keeps its devices until its processes are gone",
        kept=run.held_after_cancel > 0 and gone,
        detail=detail,
    )


def _nothing_left(run: AcceptanceRun) -> Finding:
    left = sorted(live_kernels(run.check.data_folder))
    detail = f"left: {', '.join(left)}" if left else "every map is at 0.00 and no process is left"
    return Finding(promise="nothing is left over", kept=not left, detail=detail)


def _printed_devices(output: str) -> list[str] | None:
    for line in output.splitlines():
        name, _, value = line.partition("=")
        if name == "CUDA_VISIBLE_DEVICES":
            return sorted(id for id in value.split(",") if id)
    return None


STYLE = {"completed": "green", "failed": "yellow", "canceled": "yellow"}


def print_report(console: Console, *, run: AcceptanceRun, findings: list[Finding]) -> None:
    """Print a table of the sessions and a table of the promises."""
    console.print(_sessions_table(run))
    table = Table("promise", "kept", "evidence", title="Checks", title_justify="left")
    for finding in findings:
        kept = "[green]yes[/]" if finding.kept else "[bold red]NO[/]"
        table.add_row(finding.promise, kept, finding.detail)
    console.print(table)


def as_json(*, run: AcceptanceRun, findings: list[Finding]) -> dict[str, Any]:
    """The report as plain values."""
    return {
        "ok": all(finding.kept for finding in findings),
        "sessions": [_session_json(task, run.sessions[task.name]) for task in TASKS],
        "findings": [
            {"promise": finding.promise, "kept": finding.kept, "detail": finding.detail} for finding in findings
        ],
    }


def _sessions_table(run: AcceptanceRun) -> Table:
    table = Table(title="Sessions, in the order of submission", title_justify="left")
    for heading in ("session", "GPUs", "state", "exit", "waited", "ran", "devices (share)"):
        table.add_column(heading, justify="right" if heading in {"GPUs", "exit", "waited", "ran"} else "left")
    for task in TASKS:
        row = _session_json(task, run.sessions[task.name])
        state = f"[{STYLE.get(row['state'], 'red')}]{row['state']}[/]"
        exit_code = "" if row["exit_code"] is None else str(row["exit_code"])
        waited, ran = (f"{row[key]:.1f} s" if row[key] is not None else "" for key in ("waited_s", "ran_s"))
        table.add_row(task.name, task.asked, state, exit_code, waited, ran, "\n".join(_lines(row["kernels"])))
    return table


def _lines(kernels: list[dict[str, Any]]) -> list[str]:
    """One line per kernel: `node-a: 8 devices`, or the devices by name where they are two or fewer."""
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
