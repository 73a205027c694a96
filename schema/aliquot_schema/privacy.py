"""Privacy: which fields of a session are not everybody's to see, and what stands there for others.

Everybody sees who asks for how much, with which right, where it is and why it waits: that is what a shared queue is
for. What is run, and what came of it, is the business of whoever ran it.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Sight(IntEnum):
    """How much somebody may see of a session; each sees what those before it see."""

    EVERYBODY = 0
    """Anybody with a key."""
    MEMBER = 1
    """Members of its project, and operators."""
    OWNER = 2
    """Its owner, and admins."""


SESSION_FIELDS: Final[Mapping[Sight, Mapping[str, object]]] = {
    Sight.OWNER: {"command": (), "environment": ()},
    Sight.MEMBER: {
        "working_directory": None,
        "run_id": None,
        "tags": (),
        "exit_code": None,
        "signal": None,
        "failure": None,
    },
}
"""Fields of a session, by who sees them at least; with what others see in their place."""

KERNEL_FIELDS: Final[Mapping[Sight, Mapping[str, object]]] = {
    Sight.OWNER: {},
    Sight.MEMBER: {"exit_code": None, "signal": None, "timed_out": False, "message": None},
}
"""The same of its kernels."""


def hidden_from(sight: Sight, fields: Mapping[Sight, Mapping[str, object]]) -> dict[str, object]:
    """What somebody does not see, and what stands there instead."""
    return {name: shown for least, some in fields.items() if sight < least for name, shown in some.items()}


HIDDEN: Final = {sight: hidden_from(sight, SESSION_FIELDS) for sight in Sight}
KERNEL_HIDDEN: Final = {sight: hidden_from(sight, KERNEL_FIELDS) for sight in Sight}
