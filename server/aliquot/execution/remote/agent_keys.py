"""Agent keys: authenticate agents to the server. `KeyFile` stores hashes of keys and the changes not audited yet."""

import fcntl
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import uuid_utils
from msgspec import Struct
from msgspec.structs import asdict

from aliquot.execution.agent.json_files import FORMAT, read_file, replace_file
from aliquot_schema.cluster.agents import KeyChange
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict
from aliquot_schema.ids import REQUEST_PREFIX, AgentId

UNTOLD_MAX: Final = 1000
"""Maximum of stored changes while no server records them; the newest are kept."""


class KeyEntry(Struct, frozen=True, kw_only=True):
    """Stored record of a key; the key itself is not stored."""

    sha256: str
    """Hash of the key; a key has 256 random bits, so a slow hash would not be safer."""
    created_us: int
    revoked_us: int | None = None


class KeyRecords(Struct, frozen=True):
    """Contents of the key file, always written as a whole."""

    entries: dict[AgentId, KeyEntry]
    unrecorded: list[KeyChange]


def read_records(path: Path) -> KeyRecords:
    """Read the key file; empty if it does not exist.

    Raises:
        OSError, ValueError: the file is unreadable or malformed.
    """
    fields = read_file(path)
    try:
        return KeyRecords({}, []) if fields is None else _records(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the agent key file is damaged: {error}") from None


def write_records(path: Path, records: KeyRecords) -> None:
    """Replace the key file atomically."""
    keys = {id: asdict(entry) for id, entry in records.entries.items()}
    unrecorded = [asdict(change) for change in records.unrecorded[-UNTOLD_MAX:]]
    replace_file(path, {"format": FORMAT, "keys": keys, "untold": unrecorded})


def _records(fields: dict[str, Any]) -> KeyRecords:
    entries = {AgentId(id): KeyEntry(**entry) for id, entry in fields["keys"].items()}
    return KeyRecords(entries, [KeyChange(**change) for change in fields.get("untold", ())])


KEY_FILE: Final = "agent-keys.json"
KEY_PREFIX: Final = "agk_"
ID_CHARACTERS_MAX: Final = 120
SERVER: Final = "system:agent-keys"
"""Actor of key changes without a named user."""

log: Final = logging.getLogger("aliquot.agents")


class AgentKeys(Protocol):
    """Verifies agent keys; called again periodically during a connection."""

    def verify(self, agent_id: AgentId, key: str) -> bool:
        """Whether this is the agent's key and it is not revoked."""

    def known(self) -> frozenset[AgentId]:
        """The agents with a valid key."""


class KeyFile:
    """`AgentKeys` and `KeyChanges` in a JSON file, which commands may change while the server runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._records = KeyRecords({}, [])

    def verify(self, agent_id: AgentId, key: str) -> bool:
        """See `AgentKeys`. Reads the file again if it has changed.

        Raises:
            OSError, ValueError: the file is unreadable or malformed.
        """
        entry = self.entries().get(agent_id)
        given = _hash(key)
        return entry is not None and entry.revoked_us is None and hmac.compare_digest(entry.sha256, given)

    def known(self) -> frozenset[AgentId]:
        """See `AgentKeys`."""
        return frozenset(id for id, entry in self.entries().items() if entry.revoked_us is None)

    def entries(self) -> Mapping[AgentId, KeyEntry]:
        """All keys including revoked ones, in order of creation."""
        return self._current().entries

    def create(self, agent_id: AgentId, *, now_us: int, replace: bool = False, by: str = SERVER) -> str:
        """Create a key and return it; it is not stored and cannot be shown again.

        Raises:
            InvalidRequest: the id is not a valid agent id.
            StateConflict: the agent has a valid key and `replace` is not set.
        """
        check_agent_id(agent_id)
        key = KEY_PREFIX + secrets.token_urlsafe(32)
        with self._changing() as records:
            old = records.entries.get(agent_id)
            if old is not None and old.revoked_us is None and not replace:
                text = f"{agent_id} already has a key; revoke it first, or use --replace"
                raise StateConflict(text, id=agent_id, state="has a key")
            records.entries[agent_id] = KeyEntry(sha256=_hash(key), created_us=now_us)
            records.unrecorded.append(_change(agent_id, "created" if old is None else "replaced", by=by, at_us=now_us))
        return key

    def revoke(self, agent_id: AgentId, *, now_us: int, by: str = SERVER) -> None:
        """Revoke a key; an agent connected with it is disconnected.

        Raises:
            NotFound: the agent has no valid key.
        """
        with self._changing() as records:
            old = records.entries.get(agent_id)
            if old is None or old.revoked_us is not None:
                raise NotFound(f"{agent_id} has no valid key", kind="agent key", id=agent_id)
            revoked = KeyEntry(sha256=old.sha256, created_us=old.created_us, revoked_us=now_us)
            records.entries[agent_id] = revoked
            records.unrecorded.append(_change(agent_id, "revoked", by=by, at_us=now_us))

    def unrecorded(self) -> Sequence[KeyChange]:
        """See `KeyChanges`."""
        return self._current().unrecorded

    def mark_recorded(self, ids: Collection[str]) -> None:
        """See `KeyChanges`."""
        with self._changing() as records:
            records.unrecorded[:] = [change for change in records.unrecorded if change.id not in ids]

    def _current(self) -> KeyRecords:
        """The records, read again if the file has changed."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._records = None, KeyRecords({}, [])
            return self._records
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if stamp != self._seen:
            self._records, self._seen = read_records(self._path), stamp
        return self._records

    @contextmanager
    def _changing(self) -> Iterator[KeyRecords]:
        """Change the records under a lock, so that concurrent commands do not lose changes."""
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            records = read_records(self._path)
            yield records
            write_records(self._path, records)
        finally:
            os.close(lock)


def key_refusal(keys: AgentKeys, *, agent_id: str, key: str) -> str | None:
    """Why this key is refused for this agent; None = it is valid."""
    try:
        if keys.verify(AgentId(agent_id), key):
            return None
    except (OSError, ValueError) as error:
        log.error("the agents' keys cannot be read: %s", error)
        return "the server cannot read its agents' keys; see the server's log"
    log.warning("refused a connection as agent %.80r: the key is wrong or revoked", agent_id)
    return f"the key of {agent_id[:80]} is wrong or revoked; `aliquot agent key create` makes a new one"


def check_agent_id(agent_id: str) -> None:
    """Check an agent id, which is used in a header and as a folder name.

    Raises:
        InvalidRequest: the id is invalid.
    """
    allowed = all(character.isalnum() or character in "-_." for character in agent_id) and agent_id.isascii()
    if not allowed or agent_id.startswith((".", "-")) or not 0 < len(agent_id) <= ID_CHARACTERS_MAX:
        raise InvalidRequest(
            f"{agent_id[:80]!r} is not an agent id: use 1 to {ID_CHARACTERS_MAX} letters, digits, '-', '_' and '.', "
            "and start with a letter, digit or '_'",
            field="id",
        )


def _change(agent_id: AgentId, what: str, *, by: str, at_us: int) -> KeyChange:
    id_ = f"{REQUEST_PREFIX}{uuid_utils.uuid7()}"
    return KeyChange(id=id_, agent_id=agent_id, what=what, by=by, at_us=at_us)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()
