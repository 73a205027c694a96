"""Actions: what administrators do that changes no other record."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The last of its sort; the log has all of them, each after the one before."""

    id: str
    """What was done, and to what of many: `database_copy`, `agent_key/node-1`, ..."""
    version: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)
    """What came of it, or what was asked for; no secret, and no digest of one."""
