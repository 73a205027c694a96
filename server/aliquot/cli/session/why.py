"""`aliquot session why` and `aliquot why`: why a session waits, what is in its way, and which changes would help."""

import sys
from collections.abc import Iterator
from textwrap import wrap
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.output import moment, print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected
from aliquot.cli.connection.tables import rough_duration, short_id, terminal_size, with_names
from aliquot.cli.session.list import count_tasks, session_names
from aliquot.cli.session.names import look_up
from aliquot.cli.session.options import SessionId
from aliquot.cli.session.show import preemption_note, preflight_text, progress_text, verdict_lines

if TYPE_CHECKING:
    from datetime import datetime

    from aliquot.client import BlockingClient
    from aliquot.client.generated.explanations import OtherSession, Remedy, SessionExplanation

_FULL: Final = frozenset({"insufficient", "fragmented", "gang_incomplete", "reserved"})
"""Reasons of sessions that preemption could help."""
FORECAST_S_MAX: Final = 5.0
"""How long the command waits for forecasts of changes."""
LOOK_S: Final = 0.5
SHOWN_MAX: Final = 5
"""Sessions in the way that are listed."""
_FURTHER: Final = "    "
"""Before the further lines of a long one."""
NAMED_MAX: Final = 3
"""Delayed sessions that are named."""


def why(
    session_id: SessionId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show why a session waits, which sessions are in its way, and with which changes it would start.

    Each change was tried in the scheduler on the present state of the cluster.
    """
    from aliquot.client.generated.enums import Reason, SessionState

    idle = note = names = None
    tasks = 0
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session = look_up(client, session_id)
        found = _explained(client, session.id)
        reason = None if found is None or found.waits is None or as_json else found.waits.reason
        if reason is Reason.QUOTA:
            idle = client.idle_behind_quotas()
        if reason in _FULL:
            note = preemption_note(client.policy())
        if reason is not None and found is not None and found.waits is not None:
            names = session_names(client, found.waits.blocked_by)
        if (found is None or found.waits is None) and not as_json:
            tasks = count_tasks(client, session, (SessionState.QUEUED, SessionState.HELD))
    if as_json:
        print_json(found)
        return
    if found is None or found.waits is None:
        is_pending = session.state is SessionState.QUEUED
        if tasks:
            have = (
                "task that was preempted or retried waits"
                if tasks == 1
                else "tasks that were preempted or retried wait"
            )
            print(f"{tasks} {have}; `aliquot session list --array {session.id} --state queued --state held` says why")
            return
        print("starts with the next scheduling pass" if is_pending else f"not waiting: {progress_text(session)}")
        return
    lines = verdict_lines(found.waits, names=names or {}, lists_blockers=False)
    lines += [f"  {line}" for line in (None if idle is None else idle.message, note) if line is not None]
    if session.preflight is not None and session.preflight.failures:
        lines.append(f"preflight: {printable(preflight_text(session) or '')}")
    lines += explanation_lines(found)
    if session.order_explanation is not None:
        lines.append(f"order: {printable(session.order_explanation)}")
    width = terminal_size().columns if sys.stdout.isatty() else None
    print("\n".join(lines if width is None else [part for line in lines for part in in_width(line, width)]))


def _explained(client: "BlockingClient", session_id: str) -> "SessionExplanation | None":
    """The explanation, with the changes that the server can forecast within `FORECAST_S_MAX`."""
    until_s = monotonic() + FORECAST_S_MAX
    while True:
        found = client.session_why(session_id)
        if found is None or not found.is_forecasting or monotonic() > until_s:
            return found
        sleep(LOOK_S)


def explanation_lines(found: "SessionExplanation") -> Iterator[str]:
    """The sessions in the way and ahead, the latest start, and the remedies."""
    yield from _in_the_way(found)
    if found.position is not None:
        ahead = "no session is ahead"
        if found.position > 1:
            names = ", ".join(name_text(other) for other in found.ahead[:NAMED_MAX])
            more = found.position - 1 - min(len(found.ahead), NAMED_MAX)
            ahead = f"behind {names}{f' and {more} more' if more > 0 else ''}"
        yield f"position {found.position} in the queue, {ahead}"
    if found.expected_start is not None:
        ends = "if running sessions end by their limits, or, without one, as similar ones did"
        yield f"latest start {moment(found.expected_start)}, {ends}"
    tried = [remedy for remedy in found.remedies if remedy.p50_earlier is None]
    forecast = [remedy for remedy in found.remedies if remedy.p50_earlier is not None]
    if tried:
        yield "would start with one of these changes (each was tried in the scheduler):"
    elif found.waits is not None and found.waits.reason == "held":
        yield f"`aliquot session release {found.session_id}` lets it take its turn; it would still wait then"
    else:
        yield "no single change that you can make would let it start now"
    for remedy in tried:
        yield from (f"  {line}" for line in remedy_lines(remedy))
    if forecast:
        yield "is forecast to start earlier with one of these changes (P50):"
    for remedy in forecast:
        yield from (f"  {line}" for line in remedy_lines(remedy))
    if found.is_forecasting:
        yield "other changes are being forecast; ask again in a few seconds"


def _in_the_way(found: "SessionExplanation") -> Iterator[str]:
    if found.in_the_way:
        yield "in the way:"
        yield from (f"  {other_text(other, now=found.at)}" for other in found.in_the_way[:SHOWN_MAX])
    if len(found.in_the_way) > SHOWN_MAX:
        yield f"  and {len(found.in_the_way) - SHOWN_MAX} more"


def remedy_lines(remedy: "Remedy") -> Iterator[str]:
    """What changes, when it then starts, the command, and which sessions would wait longer."""
    when = "now" if remedy.starts_now else f"by {moment(remedy.starts_at)}"
    if remedy.p50_earlier is not None:
        when = f"about {rough_duration(remedy.p50_earlier)} earlier"
    names = {other.session_id: task_name(other) for other in remedy.sessions}
    yield f"{when}, {printable(with_names(remedy.summary, names))}"
    if remedy.command is not None:
        yield f"  {printable(with_names(remedy.command, {}))}{'' if remedy.applies else '   (operators)'}"
    for delay in remedy.delays[:NAMED_MAX]:
        after = "later" if delay.after is None else f"by {moment(delay.after)}"
        before = "" if delay.before is None else f" instead of {moment(delay.before)}"
        yield f"  {name_text(delay.session)} of {printable(delay.session.owner)} would start {after}{before}"
    if len(remedy.delays) > NAMED_MAX:
        yield f"  {len(remedy.delays) - NAMED_MAX} more would start later"


def other_text(other: "OtherSession", *, now: "datetime") -> str:
    """Another session: `train (1b3ca61f) of bob, 2 GPUs, running until 2026-11-23 15:03 UTC (1h20m)`."""
    gpus = f"{other.gpus:g} GPU{'s' if other.gpus > 1 else ''}, " if other.gpus else ""
    until = ""
    if other.until is not None:
        word = "starts by" if other.state in ("queued", "held") else "expected to end by"
        until = f", {word} {moment(other.until)} (in {rough_duration((other.until - now).total_seconds())})"
    late = ", longer than expected" if other.is_overdue else ""
    able = ", preemptible" if other.preemptible else ""
    return f"{name_text(other)} of {printable(other.owner)}, {gpus}{other.state}{until}{late}{able}"


def task_name(other: "OtherSession") -> str:
    """Its name, of a task with its index: `sweep_5`; empty if it has none."""
    _, _, index = other.session_id.removeprefix("ses_").partition("_")
    return "" if other.name is None else f"{other.name}_{index}" if index else other.name


def name_text(other: "OtherSession") -> str:
    """Its name and its short id, or the id alone."""
    id = short_id(other.session_id).text
    return id if other.name is None else f"{printable(task_name(other))} ({id})"


def in_width(line: str, width: int) -> list[str]:
    """A line broken between words; what follows is indented. A command stays whole, to be copied."""
    text = line.lstrip()
    indent = " " * (len(line) - len(text))
    if text.startswith("aliquot "):
        return [line]
    broken = wrap(text, max(width - len(indent) - len(_FURTHER), 20), break_long_words=False, break_on_hyphens=False)
    return [indent + (_FURTHER if place else "") + part for place, part in enumerate(broken)]
