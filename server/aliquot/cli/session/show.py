"""`aliquot session show`: describes a session, and the reason it waits."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.output import amount_text, count_text, duration, moment, print_json, printable, request_text
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected
from aliquot.cli.connection.tables import with_names
from aliquot.cli.session.list import session_names, tasks_by_state, waiting_names
from aliquot.cli.session.names import look_up
from aliquot.cli.session.options import SessionId
from aliquot.cli.session.stats import agents_of, device_names, right_size_lines

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.agents import Agent
    from aliquot.client.generated.inputs import CreateSessionInput
    from aliquot.client.generated.policy import Policy
    from aliquot.client.generated.previews import SessionPreview
    from aliquot.client.generated.scalars import SlotGrant
    from aliquot.client.generated.sessions import Session, Verdict


COMMAND_CHARS_MAX: Final = 300
_NUMBERED: Final = re.compile(r"([a-z]+)(\d+)")
"""A device's name, like cuda3; not an id."""


def show(
    session_id: SessionId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a session: its request, state, kernels and devices."""
    from aliquot.client.sessions import ENDED

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session = look_up(client, session_id)
        names = {} if as_json else waiting_names(client, [session])
        agents = [] if as_json else agents_of(client, {kernel.agent_id for kernel in session.kernels})
    if as_json:
        print_json(session)
        return
    for name, value in _facts(session):
        if value:
            print(f"{name:<12} {printable(value)}")
    state = outcome_text(session) if session.state in ENDED else with_names(progress_text(session), names)
    print(f"{'state':<12} {state}")
    for line in kernel_lines(session, agents):
        print(line)
    name, path = page_of(session)
    print(f"{name:<12} {client.url}{path}")


def kernel_lines(session: "Session", agents: "Sequence[Agent]") -> Iterator[str]:
    """The state, agent and devices of each kernel: `rank 0 running on gpu01: 2 GPUs (cuda 0-1)`."""
    devices = {device.id: device.name for agent in agents for device in agent.devices}
    lost = {agent.id for agent in agents if agent.state == "lost"}
    for kernel in session.kernels:
        place = printable(kernel.agent_id)
        if kernel.agent_id in lost and kernel.ended_at is None:
            place += " (agent lost; its processes may still run)"
        note = f"; {printable(kernel.message)}" if kernel.message and kernel.ended_at is None else ""
        yield f"rank {kernel.rank:<7} {kernel.state} on {place}: {grant_text(kernel.resource_spec, devices)}{note}"


def page_of(session: "Session") -> tuple[str, str]:
    """(what it shows, path) of a page of the dashboard to send to a colleague; of an array its failed tasks."""
    if session.tasks is not None and session.tasks.failed.count:
        return "failed tasks", f"/sessions?state=failed&array={session.id}"
    return "page", f"/sessions/{session.id}"


def _facts(session: "Session") -> list[tuple[str, str | None]]:
    return [
        ("session", session.id),
        ("name", session.name),
        ("owner", f"{session.owner}, project {session.project}, pool {session.pool}"),
        ("command", _command(session.command)),
        ("request", request_text(session.slots, kernels=session.cluster_size)),
        ("topology", "require: all kernels on one switch" if session.topology == "require" else None),
        ("time limit", duration(session.time_limit)),
        ("priority", session.priority),
        ("after", ", ".join(f"{one.session_id} ({one.condition}, {one.state})" for one in session.depends_on)),
        ("submitted", moment(session.queued_at)),
        ("started", moment(session.started_at)),
        ("ended", moment(session.ended_at)),
        ("attempt", str(session.attempt) if session.attempt > 1 else None),
        ("checkpoint", _saved(session)),
        ("booking", session.booking),
        ("image", session.image),
        ("pull", _pull_text(session)),
        ("preflight", preflight_text(session)),
        ("note", None if session.work is None else session.work.note),
        ("tasks", "; ".join(f"{name}: {one.indices}" for name, one in tasks_by_state(session))),
        ("estimate", None if session.order_estimate is None else session.order_estimate.explanation),
        ("order", session.order_explanation),
        ("latest start", moment(session.expected_start)),
    ]


def _command(argv: tuple[str, ...]) -> str:
    """The command on one line, without the prelude of a Slurm script, cut at `COMMAND_CHARS_MAX`."""
    import shlex

    from aliquot.cli.session.slurm import without_slurm_variables

    text = shlex.join(without_slurm_variables(argv)).replace("\n", "; ")
    return text if len(text) <= COMMAND_CHARS_MAX else f"{text[:COMMAND_CHARS_MAX]}..."


def preflight_text(session: "Session") -> str | None:
    """The check before its command, and where it failed last; None without one, or if it is hidden."""
    import shlex

    check = session.preflight
    if check is None:
        return None
    text = shlex.join(check.command) or "the agent's own check"
    if not check.failures:
        return f"{text}, within {duration(check.time_limit)}"
    times = "once" if check.failures == 1 else f"{check.failures} times"
    return f"{text}; failed {times}, no retry used; last on {check.agent_id}: {check.message}"


def is_pulling(session: "Session") -> bool:
    """Whether it waits for its image."""
    from aliquot.client.generated.enums import SessionState

    is_done = session.pull is None or session.pull.ended_at is not None
    return session.state is SessionState.ALLOCATING and not is_done


def _pull_text(session: "Session") -> str | None:
    """How the pull of its image went; None without one."""
    from aliquot_schema.resources.units import size_text

    pull = session.pull
    if pull is None:
        return None
    if pull.ended_at is None:
        return f"on {pull.agent_id}: {_pulled_part(session)}"
    size = "" if pull.size is None else f", {size_text(pull.size)} on the node"
    return f"on {pull.agent_id}, took {duration((pull.ended_at - pull.began_at).total_seconds())}{size}"


def _pulled_part(session: "Session") -> str:
    from aliquot_schema.resources.units import size_text

    pull = session.pull
    assert pull is not None, f"{session.id} has no pull"
    layers = f"{pull.layers_done} of {pull.layers} layers"
    return f"{size_text(pull.bytes_done)} of {size_text(pull.bytes_total)}, {layers}" if pull.layers else "just begun"


def _saved(session: "Session") -> str | None:
    work = session.work
    if work is None or work.saved_at is None:
        return None
    if not work.kept:
        return "none in force"
    return f"{duration(work.kept)} of work, acknowledged at {moment(work.saved_at)} on {work.agent_id}"


def progress_text(session: "Session") -> str:
    """The state of a session: `queued, position 3: ...`."""
    if session.tasks is not None:
        return f"{session.state}, {count_text(session.tasks.active.count, 'task')} started and not ended"
    position = f", position {session.queue_position}" if session.queue_position is not None else ""
    why = f": {printable(session.waits.message)}" if session.waits is not None else ""
    notes = [kernel.message for kernel in session.kernels if kernel.message and kernel.started_at is None]
    if session.state == "allocating" and notes:
        why = f": {printable(notes[0])}"
    if is_pulling(session) and session.pull is not None:
        why = f": pulling {printable(session.image or 'its image')} on {session.pull.agent_id}, {_pulled_part(session)}"
    return f"{session.state}{position}{why}"


def outcome_text(session: "Session") -> str:
    """The outcome of an ended session: `ses_...: failed with exit code 3 after 2m 5s`."""
    from aliquot.client.generated.enums import SessionState

    ran = ""
    if session.ended_at is not None and session.started_at is not None:
        ran = f" after {duration((session.ended_at - session.started_at).total_seconds())}"
    if session.tasks is not None and session.state is SessionState.FAILED:
        return f"{session.id}: failed{ran}: tasks {session.tasks.failed.indices}"
    if session.state is not SessionState.FAILED:
        return f"{session.id}: {session.state}{ran}"
    how = ""
    if session.signal is not None:
        how = f" by signal {session.signal}"
    elif session.exit_code:
        how = f" with exit code {session.exit_code}"
    why = f": {printable(session.failure.message)}" if session.failure is not None else ""
    return f"{session.id}: failed{how}{ran}{why}"


def verdict_lines(verdict: "Verdict", *, names: Mapping[str, str], lists_blockers: bool = True) -> list[str]:
    """The reason a session waits and the figures behind it, line by line.

    Args:
        names: of the sessions in the way, by id.
        lists_blockers: False leaves out the line with all sessions in the way.
    """
    lines = [f"{verdict.reason}: {printable(with_names(verdict.message, names))}"]
    if verdict.quota is not None:
        lines += _quota_lines(verdict)
    elif verdict.slot is not None and verdict.available is not None:
        lines.append(_shortage_line(verdict))
    if verdict.fits_kernels is not None:
        lines.append(f"  {verdict.fits_kernels} of its kernels would fit now")
    behind = [with_names(id, names) for id in verdict.blocked_by] if lists_blockers else []
    for title, found in (("behind", behind), ("agents", verdict.agents), ("devices", verdict.devices)):
        if found:
            lines.append(f"  {title}: {', '.join(map(printable, found))}")
    if verdict.until is not None:
        lines.append(f"  considered again at {moment(verdict.until)}")
    return lines


def _shortage_line(verdict: "Verdict") -> str:
    from aliquot_schema.resources.slots import amount_text as in_words
    from aliquot_schema.resources.slots import number_text

    free = number_text(verdict.slot, verdict.available)
    return f"  each kernel needs {in_words(verdict.slot, verdict.requested)}; the agent with most has {free} free"


def _quota_lines(verdict: "Verdict") -> list[str]:
    from aliquot_schema.resources.slots import amount_text as in_words
    from aliquot_schema.resources.slots import number_text

    lines = []
    if verdict.slot is not None and verdict.limit is not None:
        held, left = (number_text(verdict.slot, text) for text in (verdict.held, verdict.available))
        limit = in_words(verdict.slot, verdict.limit)
        lines.append(f"  quota {printable(verdict.quota).rstrip(':')}: {limit}, {held} held, {left} left")
    if verdict.may_borrow:
        lines.append("  submit with --preemptible to borrow idle GPUs")
    return lines


def grant_text(spec: "Iterable[SlotGrant]", names: Mapping[str, str]) -> str:
    """The devices of a kernel: `2 CPUs of cpu0, 0.6 GPU of cuda3`.

    Args:
        names: of devices, by id.
    """
    return ", ".join(part for grant in spec for part in _parts(grant, names))


def _parts(grant: "SlotGrant", names: Mapping[str, str]) -> list[str]:
    """The devices of a slot. Several whole ones are counted, and their numbers given as ranges."""
    from aliquot_schema.intervals import Intervals

    found = [names.get(one.device_id, one.device_id) for one in grant.devices]
    matches = [_NUMBERED.fullmatch(name) for name in found]
    kinds = {None if match is None else match[1] for match in matches}
    if len(found) > 1 and len(kinds) == 1 and all(float(one.amount) == 1 for one in grant.devices):
        numbers = Intervals.of(int(match[2]) for match in matches if match is not None)
        if None not in kinds:
            return [f"{amount_text(grant.slot, str(len(found)))} ({kinds.pop()} {numbers})"]
    return [f"{amount_text(grant.slot, one.amount)} of {name}" for one, name in zip(grant.devices, found, strict=True)]


def preemption_note(policy: "Policy") -> str | None:
    """Which sessions may be preempted under the order `priority`, and how to change it; None under other orders."""
    from aliquot.client.generated.enums import PreemptScope

    if policy.order != "priority":
        return None
    change = "`aliquot policy set preemption.preempt={}` changes this to {}"
    if policy.preemption.preempt == PreemptScope.NONE:
        way = change.format("preemptible", "sessions submitted with --preemptible")
        return f"order=priority: no session is preempted for one of higher priority. {way}"
    if policy.preemption.preempt == PreemptScope.ANY:
        way = change.format("preemptible", "those submitted with --preemptible")
        return f"order=priority: any session of lower priority may be preempted. {way}"
    way = change.format("any", "all sessions of lower priority")
    return f"order=priority: only sessions submitted with --preemptible are preempted for one of higher priority. {way}"


def preview_text(client: "BlockingClient", preview: "SessionPreview", wanted: "CreateSessionInput") -> str:
    """What would happen to a submission now."""
    from aliquot_schema.intervals import Intervals

    agents = {kernel.agent_id for kernel in preview.kernels}
    # `gpu01+1` is one that a what-if question adds: it has the devices of gpu01.
    names = device_names(client, agents | {agent.rpartition("+")[0] or agent for agent in agents})
    lines = ["it would start now" if preview.starts_now else "it would wait"]
    if preview.failure is not None:
        lines = [f"it would fail: {printable(preview.failure.message)}"]
    lines.append(f"  request: {request_text(preview.slots, kernels=wanted.cluster_size)}")
    if wanted.array is not None:
        tasks = len(Intervals.parse(wanted.array))
        is_part = preview.starts_now and preview.tasks_starting < tasks
        lines.append(f"  tasks: {tasks}" + (f", of which {preview.tasks_starting} would start now" if is_part else ""))
    if preview.waits is not None:
        waits_for = session_names(client, preview.waits.blocked_by)
        lines += [f"  {line}" for line in verdict_lines(preview.waits, names=waits_for)]
    if preview.expected_start is not None:
        lines.append(f"latest start {moment(preview.expected_start)}")
    if preview.estimated_start is not None:
        lines.append(f"estimated start {moment(preview.estimated_start)}, if all sessions keep to their limits")
    for kernel in preview.kernels:
        lines.append(f"  rank {kernel.rank} on {kernel.agent_id}: {grant_text(kernel.resource_spec, names)}")
    for one in preview.displaces:
        lines.append(f"  {one.session_id} of {printable(one.owner)} would be preempted ({one.cause})")
    if preview.cost is not None:
        lines.append(printable(preview.cost.text))
    if preview.right_size is not None:
        lines += right_size_lines(preview.right_size)
    return "\n".join(lines)
