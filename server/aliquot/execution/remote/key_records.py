"""What the file of agent keys holds: what is known of each key, and the changes that the log has not been told of."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aliquot.execution.agent.json_files import FORMAT, read_file, replace_file
from aliquot.service.auditing.key_changes import KeyChange
from aliquot_schema.ids import AgentId

UNTOLD_MAX: Final = 1000
"""While no server takes them; of more, the newest stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """What is kept of a key; the key itself is not."""

    sha256: str
    """A key has 256 random bits: a slow hash would make it no safer."""
    created_us: int
    revoked_us: int | None = None


@dataclass(frozen=True, slots=True)
class KeyRecords:
    """All of it. Whoever changes it writes it as a whole."""

    entries: dict[AgentId, KeyEntry]
    untold: list[KeyChange]


def read_records(path: Path) -> KeyRecords:
    """Empty when there is no file.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    fields = read_file(path)
    try:
        return KeyRecords({}, []) if fields is None else _records(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the file of agent keys is damaged: {error}") from None


def write_records(path: Path, records: KeyRecords) -> None:
    """Readers see the old file or the new one."""
    keys = {id: asdict(entry) for id, entry in records.entries.items()}
    untold = [asdict(change) for change in records.untold[-UNTOLD_MAX:]]
    replace_file(path, {"format": FORMAT, "keys": keys, "untold": untold})


def _records(fields: dict[str, Any]) -> KeyRecords:
    entries = {AgentId(id): KeyEntry(**entry) for id, entry in fields["keys"].items()}
    return KeyRecords(entries, [KeyChange(**change) for change in fields.get("untold", ())])
