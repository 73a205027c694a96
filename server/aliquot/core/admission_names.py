"""Names of variables that people may give a session."""

import re
from typing import Final

from aliquot_schema.errors import InvalidRequest

RESERVED_PREFIX: Final = "ALIQUOT_"
RESERVED: Final = frozenset(
    {
        "CHECKPOINT_DIR",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "NVIDIA_VISIBLE_DEVICES",
        "RANK",
        "RESULT_DIR",
        "WORLD_SIZE",
    }
)
"""Variables that a kernel is given; a user's own value would be overridden."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def check_own_variable(name: str, *, field: str) -> None:
    """Refuse what is no name of a variable, and what Aliquot sets.

    Raises:
        InvalidRequest: the message names the field.
    """
    if _VARIABLE.fullmatch(name) is None:
        raise InvalidRequest(f"{field}: {name[:64]!r} is no variable name", field=field)
    if name.startswith(RESERVED_PREFIX) or name in RESERVED:
        raise InvalidRequest(
            f"{field}: {name[:64]} is set by Aliquot; leave it out, or choose another name", field=field
        )
