"""Effects of a change on waiting sessions, for `what-if`, `agents drain --preview` and `policy set --preview`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.output import moment, print_json, printable
from aliquot.cli.connection.tables import rough_duration
from aliquot.cli.session.show import preview_text
from aliquot.cli.session.why import name_text, other_text

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.explanations import SessionDelay, WhatIf, WhatIfInput
    from aliquot.client.generated.inputs import CreateSessionInput

UNKNOWN: Final = "later starts are unknown"
"""In the note of an answer that does not know which sessions would start later or sooner."""
NAMED_MAX: Final = 10
"""Sessions of a kind that are named."""


def show_what_if(client: "BlockingClient", asked: "WhatIfInput", *, as_json: bool) -> None:
    """Ask, and print the answer."""
    found = client.what_if(asked)
    print_json(found) if as_json else print("\n".join(lines_of(client, found, asked.session)))


def lines_of(client: "BlockingClient", found: "WhatIf", wanted: "CreateSessionInput | None") -> Iterator[str]:
    """What would start now, who would be displaced, and who would start later or sooner."""
    if found.session is not None and wanted is not None:
        yield preview_text(client, found.session, wanted)
        if found.session_start is not None and not found.session.starts_now:
            yield f"about {moment(found.session_start)}, if all sessions run for their planned durations"
    stopped = [f"{other_text(one.session, now=found.at)}; {again_text(one)}" for one in found.restarts]
    starting = [other_text(other, now=found.at) for other in found.starts]
    for title, texts in (("would be preempted", stopped), ("would start now", starting)):
        yield from (f"{title}: {text}" for text in texts[:NAMED_MAX])
        if len(texts) > NAMED_MAX:
            yield f"{title}: {len(texts) - NAMED_MAX} more"
    yield from _moved(found.later, found.later_count, "later")
    yield from _moved(found.sooner, found.sooner_count, "sooner")
    has_effect = found.later_count or found.sooner_count or found.starts or found.displaced
    if not has_effect and UNKNOWN not in (found.note or ""):
        yield "no waiting session would start later or sooner"
    if found.wait_before is not None and found.wait_after is not None:
        before, after = rough_duration(found.wait_before), rough_duration(found.wait_after)
        yield f"mean wait from now on: {before} without the change, {after} with it, for planned durations"
    if found.note is not None:
        yield printable(found.note)


def again_text(restart: "SessionDelay") -> str:
    """When a preempted session would run again."""
    return "when it would run again is unknown" if restart.after is None else f"runs again {moment(restart.after)}"


def _moved(delays: "tuple[SessionDelay, ...]", total: int, word: str) -> Iterator[str]:
    if total:
        yield f"{total} {'session' if total == 1 else 'sessions'} would start {word}:"
        yield from (f"  {delay_text(delay)}" for delay in delays[:NAMED_MAX])
        if total > NAMED_MAX:
            yield f"  and {total - NAMED_MAX} more"


def delay_text(delay: "SessionDelay") -> str:
    """A session whose start moves: `train (ses_...) of bob: 15:03 -> 16:10 (1h07m later)`."""
    before = "unknown" if delay.before is None else moment(delay.before)
    after = "unknown" if delay.after is None else moment(delay.after)
    moved = ""
    if delay.before is not None and delay.after is not None:
        seconds = (delay.after - delay.before).total_seconds()
        moved = f" ({rough_duration(abs(seconds))} {'later' if seconds > 0 else 'sooner'})"
    return f"{name_text(delay.session)} of {printable(delay.session.owner)}: {before} -> {after}{moved}"
