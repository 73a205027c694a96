"""`aliquot backtest`: the recorded history of a server run again under other policies or on another cluster."""

import csv
import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from aliquot.cli.cluster.policy_changes import policy_in, policy_of
from aliquot.cli.connection.output import cells, count_text, duration, moment, print_json, printable, show_table, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, fail, usage
from aliquot.cli.connection.tables import present
from aliquot.cli.session.options import seconds_of

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.backtests import (
        Backtest,
        BacktestInput,
        BacktestReport,
        BacktestRow,
        BacktestRunInput,
    )

POLL_S: Final = 0.5
PATIENCE_S: Final = 60.0
"""How long a server that cannot answer is asked again."""
NAMED_MAX: Final = 5
"""Sessions, or groups, of a kind that are printed."""
SINCE: Final = "7d"
OPEN: Final = ("queued", "running")
CSV_COLUMNS: Final = (
    "run", "kind", "name", "sessions", "gpu_hours", "wait_mean_s", "wait_p95_s", "wait_max_s", "completion_mean_s",
    "completion_p95_s", "completion_max_s", "slowdown_mean", "utilization", "preemptions", "fairness_users",
    "fairness_projects", "wait_before_mean_s",
)  # fmt: skip

Since = Annotated[str, Option(metavar="DURATION", help="Run the sessions submitted in this time, like 30d.")]
PolicyFiles = Annotated[
    list[Path] | None,
    Option("--policy", metavar="FILE", help="A policy as printed by `policy show --json`; a run for each."),
]
Changes = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Change the present policy, as in `policy set`; together one run."),
]
Like = Annotated[str | None, Option(metavar="AGENT", help="Add agents like this one, in every run.")]
Without = Annotated[list[str] | None, Option(metavar="AGENT", help="Leave out this agent, in every run.")]
Show = Annotated[str | None, Option(metavar="ID", help="Print the result of an earlier backtest; runs nothing.")]
AsList = Annotated[bool, Option("--list", help="List the newest backtests and tunings with their ids; runs nothing.")]
CsvFile = Annotated[Path | None, Option("--csv", metavar="FILE", help="Write all figures, a line per run and group.")]


def backtest(
    since: Since = SINCE,
    policy: PolicyFiles = None,
    changes: Changes = None,
    like: Like = None,
    count: Annotated[int | None, Option(min=1, max=64, help="How many agents to add.", show_default="1")] = None,
    without: Without = None,
    csv_file: CsvFile = None,
    show: Show = None,
    as_list: AsList = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Run the recorded history again, and compare waits, completion times, utilization and fairness.

    The server does it in the background, apart from its own process. Ctrl-C stops it. For operators.
    """
    runs_one = bool(policy or changes or like or count or without) or since != SINCE
    if (show or as_list) and (runs_one or (show and as_list)):
        usage(f"{'--show' if show else '--list'}: give no options of another run with it")
    if as_list and csv_file is not None:
        usage("--csv: the list has no figures; give it with --show ID")
    if csv_file is not None:
        _check_csv(csv_file)
    asked = None if show or as_list else _asked(since, policy, changes, like, count, without)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if as_list:
            _print_list(client.backtests(), as_json=as_json)
            return
        if asked is None:
            found = kept(client, show or "", name="backtest")
        else:
            found = finished(client, client.start_backtest(asked))
    report = _report_of(found)
    print_json(report) if as_json else print_report(found.id, report)
    if csv_file is not None:
        _write_csv(report, csv_file)


def _asked(
    since: str,
    policy: list[Path] | None,
    changes: list[str] | None,
    like: str | None,
    count: int | None,
    without: list[str] | None,
) -> "BacktestInput":
    """The backtest that the options describe."""
    from aliquot.client.generated.backtests import BacktestInput, BacktestRunInput

    seconds = seconds_of(since, option="--since")
    assert seconds is not None, "it has a default"
    policies = [(name, policy_in(path)) for name, path in zip(_names_of(policy or ()), policy or (), strict=True)]
    policies += [(", ".join(changes), policy_of(changes))] if changes else []
    if count is not None and not like:
        usage("--count: name the agent with --like")
    runs = [
        BacktestRunInput(label=name, policy=one, like=like, count=count or 1, without=without or [])
        for name, one in policies
    ]
    if not runs and not (like or without):
        usage("give another policy or cluster: --set order=sjf, --policy FILE, --like AGENT or --without AGENT")
    if not runs:
        runs = [BacktestRunInput(label="another cluster", like=like, count=count or 1, without=without or [])]
    return BacktestInput(runs=runs, since=present() - timedelta(seconds=seconds))


def _names_of(files: "Sequence[Path]") -> list[str]:
    """Names of runs: those of the files, with their folders where two are the same."""
    stems = [path.stem for path in files]
    return [stem if stems.count(stem) == 1 else str(path) for stem, path in zip(stems, files, strict=True)]


def _check_csv(path: Path) -> None:
    """Check that the file can be written, before a run that may take an hour."""
    if path.is_dir():
        usage(f"--csv: {path} is a folder; give a file")
    if not path.parent.is_dir():
        usage(f"--csv: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        usage(f"--csv: {path} cannot be written: permission denied")


def tried(client: "BlockingClient", run: "BacktestRunInput", *, since_s: float, as_json: bool) -> None:
    """Run one policy on the recent history, and print the comparison."""
    from aliquot.client.generated.backtests import BacktestInput

    asked = BacktestInput(runs=[run], since=present() - timedelta(seconds=since_s))
    found = finished(client, client.start_backtest(asked))
    report = _report_of(found)
    print_json(report) if as_json else print_report(found.id, report)


def finished(client: "BlockingClient", started: "Backtest", *, name: str = "backtest") -> "Backtest":
    """Wait for the end of a backtest or tuning that this command started; Ctrl-C stops it. Exits as `ended` does."""
    from aliquot.client.errors import ClientFailure

    try:
        try:
            return ended(client, started, name=name)
        except KeyboardInterrupt:
            client.cancel_backtest(started.id)
            raise
    except ClientFailure:
        command = "tune" if name == "tuning" else "backtest"
        print(
            f"aliquot: the server keeps the {name} and goes on with it: `aliquot {command} --show {started.id}`",
            file=sys.stderr,
        )
        raise


def kept(client: "BlockingClient", id: str, *, name: str) -> "Backtest":
    """An earlier backtest or tuning, after its end. Exits with code 1 if there is none, or if it failed."""
    found = client.backtest(id)
    if found is None:
        said = f"there is no {name} {printable(id)[:80]}; the newest 50 are kept"
        fail(said, advice="`aliquot backtest --list` lists them", code=1)
    return ended(client, found, name=name)


def _report_of(found: "Backtest") -> "BacktestReport":
    if found.report is None:
        fail(f"{found.id} is a tuning; `aliquot tune --show {found.id}` shows it", code=1)
    return found.report


def ended(client: "BlockingClient", found: "Backtest", *, name: str) -> "Backtest":
    """Wait for the end of a backtest or tuning, with a progress bar. Exits with code 1 if it fails."""
    from aliquot.cli.simulation.rendering import bar

    if found.state in OPEN:
        with bar(name, total=100) as on_progress:
            while found.state in OPEN:
                time.sleep(POLL_S)
                found = _again(client, found, name=name)
                on_progress(round(100 * found.progress))
    if found.report is None and found.tuning is None:
        fail(printable(found.failure or f"the {name} was {found.state}"), code=1)
    return found


def _again(client: "BlockingClient", known: "Backtest", *, name: str) -> "Backtest":
    """The backtest now. A server that cannot answer is asked again for a minute: it may be starting."""
    from aliquot.client.errors import ClientFailure, is_temporary

    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            if (found := client.backtest(known.id)) is not None:
                return found
        except ClientFailure as error:
            if not is_temporary(error) or time.monotonic() > give_up:
                raise
            time.sleep(POLL_S)
        else:
            fail(f"the server no longer keeps the {name}; run the command again", code=1)


def print_report(id: str, report: "BacktestReport") -> None:
    """Print the comparison as tables and sentences."""
    print_rows(report.rows)
    for line in _lines(report):
        print(line)
    print(f"to show it again: aliquot backtest --show {id}")


def _print_list(found: "Sequence[Backtest]", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = table("id", "started", "by", "state", "runs")
    for one in found:
        state = f"{one.state}, {100 * one.progress:.0f} %" if one.state == "running" else one.state
        what = "; ".join(one.labels)
        said = f"{what}: {one.failure}" if one.failure else what
        rows.add_row(*cells(one.id, moment(one.created_at), printable(one.created_by), state, printable(said)))
    show_table(rows)


def print_rows(rows: "Sequence[BacktestRow]") -> None:
    """Print the figures of runs as a table."""
    figures = table("run", "wait mean", "p95", "longest", "completion mean", "p95", "slowdown", "GPUs used",
                    "preemptions", "fairness")  # fmt: skip
    for row in rows:
        figures.add_row(*cells(*_figures(row)))
    show_table(figures)


def _figures(row: "BacktestRow") -> tuple[str, ...]:
    times = [duration(value) for value in (row.wait.mean, row.wait.p95, row.wait.max)]
    times += [duration(value) for value in (row.completion.mean, row.completion.p95)]
    shares = (
        f"{row.slowdown:.1f}",
        f"{100 * row.utilization:.0f} %",
        str(row.preemptions),
        f"{row.fairness_users:.2f}",
    )
    return (row.label, *times, *shares)


def _lines(report: "BacktestReport") -> Iterator[str]:
    yield f"{count_text(report.sessions, 'session')}; fairness is Jain's index of the users' slowdowns, 1 = all equal"
    started = report.reproduced + report.different_count
    of = f"{report.reproduced} of {count_text(started, 'session')}"
    yield f"the policies of the time start {of} exactly when they started"
    for one in report.different[:NAMED_MAX]:
        yield f"  {one.session_id} of {printable(one.owner)}: {one.reason}"
    for note in report.notes:
        yield f"note: {printable(note)}"
    for row in report.rows[1:]:
        less = count_text(row.winners_count, "session waits", "sessions wait")
        longer = count_text(row.losers_count, "waits", "wait")
        yield f"{printable(row.label)}: {less} less, {longer} longer"
        moved = [group for group in row.groups if group.kind == "user"]
        for group in sorted(moved, key=lambda group: group.wait_before - group.wait)[:NAMED_MAX]:
            before, after = duration(group.wait_before), duration(group.wait)
            yield f"  {printable(group.name)}: mean wait {before} -> {after}, {count_text(group.sessions, 'session')}"


def _write_csv(report: "BacktestReport", path: Path) -> None:
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(CSV_COLUMNS)
            writer.writerows(line for row in report.rows for line in _csv_lines(row))
    except OSError as error:
        usage(f"{path} cannot be written: {error.strerror or error}")


def _csv_lines(row: "BacktestRow") -> Iterator[Sequence[object]]:
    wait, completion = row.wait, row.completion
    yield (
        *(row.label, "all", "", row.sessions, sum(group.gpu_hours for group in row.groups if group.kind == "user")),
        *(wait.mean, wait.p95, wait.max, completion.mean, completion.p95, completion.max),
        *(row.slowdown, row.utilization, row.preemptions, row.fairness_users, row.fairness_projects, ""),
    )
    for group in row.groups:
        yield (
            *(row.label, group.kind, group.name, group.sessions, group.gpu_hours),
            *(group.wait, "", "", group.completion, "", "", group.slowdown, "", "", "", "", group.wait_before),
        )
