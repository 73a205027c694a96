"""What a pass says of those that it did not serve: why they stand aside, when that ends, and who asks for less now."""

from collections.abc import Mapping

from aliquot.core.gate import Gated
from aliquot.core.queue import IntArray, Queue
from aliquot.core.serving import Serving
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Reason, Verdict


def wake_at(gated: Gated, waiting: Mapping[SessionId, Verdict]) -> int | None:
    """The first known time at which a gate or a quota opens."""
    opens = [verdict.evidence.until_us for verdict in waiting.values() if verdict.reason is Reason.QUOTA]
    known = [at_us for at_us in (gated.wake_at_us, *opens) if at_us is not None]
    return min(known, default=None)


def falling_back(gated: Gated, serving: Serving) -> dict[SessionId, int]:
    """Who starts now keeps what it asked for."""
    placed = {placement.session_id for placement in serving.placements}
    return {name: gated.fallbacks[name] for name in sorted(gated.fallbacks) if name not in placed}


def set_aside(gated: Gated, queue: Queue, order: IntArray) -> dict[SessionId, Verdict]:
    """Why those wait that the gate held back, in the order that they would stand in."""
    if not gated.verdicts:
        return {}
    names = [queue[position].session_id for position in order[gated.ready[order] == 0].tolist()]
    return {name: gated.verdicts[name] for name in names if name in gated.verdicts}
