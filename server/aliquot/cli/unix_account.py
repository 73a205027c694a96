"""The Unix account that uses a command on the server's machine: whom the log names for what it does."""

import os
import pwd
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aliquot.store.audit.noting import Hand
    from aliquot.store.store import Database


def unix_actor() -> str:
    """`unix:<account>`: of the process itself, whatever its environment says. No user's name has a colon."""
    try:
        return f"unix:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:  # as in a container with an account that its files do not know
        return f"unix:{os.getuid()}"


def own_hand() -> "Hand":
    """Whoever uses this command, now."""
    from aliquot.clock import RandomIds, SystemClock
    from aliquot.store.audit.noting import Hand
    from aliquot_schema.ids import REQUEST_PREFIX, RequestId

    request_id = RequestId(RandomIds().new(REQUEST_PREFIX))
    return Hand(actor=unix_actor(), request_id=request_id, at_us=SystemClock().now_us())


async def noted(opened: "Database", what: str, facts: Mapping[str, object]) -> None:
    """Leave an event of what this command does."""
    from aliquot.store.audit.noting import note

    told = {name: str(value) for name, value in facts.items()}
    await opened.write(partial(note, what=what, facts=told, by=own_hand()))
