"""Sessions in a sentence."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from aliquot.cli.connection.printing import duration, moment, printable
from aliquot.client.generated.enums import SessionState

if TYPE_CHECKING:
    from aliquot.client.generated.amounts import SlotGrant
    from aliquot.client.generated.previews import SessionPreview
    from aliquot.client.generated.sessions import Session, Verdict


def course(session: "Session") -> str:
    """How it stands: `queued, place 3: cuda.shares: ...`."""
    if session.tasks is not None:
        return f"{session.state}, {session.tasks.active.count} tasks at work"
    place = f", place {session.queue_position}" if session.queue_position is not None else ""
    why = f": {printable(session.waits.message)}" if session.waits is not None else ""
    return f"{session.state}{place}{why}"


def ending(session: "Session") -> str:
    """How it ended: `ses_...: failed with exit code 3 after 2m 5s`."""
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


def waits_text(verdict: "Verdict") -> list[str]:
    """Why it waits, and what that rests on, line by line."""
    lines = [f"{verdict.reason}: {printable(verdict.message)}"]
    if verdict.slot is not None:
        lines.append(f"  {verdict.slot}: {verdict.requested} asked, {verdict.available} free where most is")
    if verdict.fits_kernels is not None:
        lines.append(f"  {verdict.fits_kernels} of its kernels would fit now")
    for name, ids in (("behind", verdict.blocked_by), ("agents", verdict.agents), ("devices", verdict.devices)):
        if ids:
            lines.append(f"  {name}: {', '.join(map(printable, ids))}")
    if verdict.until is not None:
        lines.append(f"  looked at again {moment(verdict.until)}")
    return lines


def given_text(spec: "Iterable[SlotGrant]") -> str:
    """What a kernel was given: `2 cpu of cpu0, 0.6 cuda.shares of GPU-...`."""
    return ", ".join(f"{one.amount} {grant.slot} of {one.device_id}" for grant in spec for one in grant.devices)


def preview_text(preview: "SessionPreview") -> str:
    """What would become of it now."""
    lines = ["it would start now" if preview.starts_now else "it would wait"]
    if preview.failure is not None:
        lines = [f"it would fail: {printable(preview.failure.message)}"]
    if preview.waits is not None:
        lines += [f"  {line}" for line in waits_text(preview.waits)]
    if preview.expected_start is not None:
        lines.append(f"it would start at the latest {moment(preview.expected_start)}")
    for kernel in preview.kernels:
        lines.append(f"  rank {kernel.rank} on {kernel.agent_id}: {given_text(kernel.resource_spec)}")
    for one in preview.displaces:
        lines.append(f"  {one.session_id} of {printable(one.owner)} would make room ({one.cause})")
    return "\n".join(lines)
