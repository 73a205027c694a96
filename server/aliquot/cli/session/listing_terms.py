"""What the options of `aliquot session list` ask for, in the client's words."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aliquot.cli.connection.asking import usage
from aliquot.cli.connection.choices import choice
from aliquot.cli.session.notation import duration_s

if TYPE_CHECKING:
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.generated.session_filters import TimeRange


def states_of(given: Sequence[str] | None, *, all_states: bool) -> "list[SessionState] | None":
    """Those named; else all, or those that have not ended."""
    from aliquot.client.generated.enums import SessionState
    from aliquot.client.session_calls import ENDED

    if given:
        return [choice(SessionState, text, of="state") for text in given]
    return None if all_states else [one for one in SessionState if one not in ENDED]


def range_of(since: str | None, until: str | None, *, option: str) -> "TimeRange | None":
    """A time between two moments, unless neither is given.

    Raises:
        typer.Exit: one of them is no time; it was told.
    """
    from aliquot.client.generated.session_filters import TimeRange

    if since is None and until is None:
        return None
    bounds = (moment_of(since, option=f"{option}-since"), moment_of(until, option=f"{option}-until"))
    return TimeRange(since=bounds[0], until=bounds[1])


def moment_of(text: str | None, *, option: str) -> datetime | None:
    """A moment: ISO 8601, UTC where no zone is named, or a duration before now."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _ago(text, option=option)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _ago(text: str, *, option: str) -> datetime:
    from aliquot.clock import SystemClock

    ago_s = duration_s(text)
    now_s = SystemClock().now_us() / 1_000_000
    if ago_s is None or ago_s > now_s:
        usage(f"{option} {text}: write it like 2026-03-01T12:00, or so long ago: 90m, 7d")
    return datetime.fromtimestamp(now_s - ago_s, UTC)
