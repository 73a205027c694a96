"""Agent keys: who may dial in as which agent. The first implementation is a file of the server."""

import fcntl
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import uuid_utils

from aliquot.execution.remote.key_records import KeyEntry, KeyRecords, read_records, write_records
from aliquot.service.auditing.key_changes import KeyChange
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict
from aliquot_schema.ids import REQUEST_PREFIX, AgentId

KEY_FILE: Final = "agent-keys.json"
KEY_PREFIX: Final = "agk_"
ID_CHARACTERS_MAX: Final = 120
SERVER: Final = "system:agent-keys"
"""Who changes keys when nobody is named."""

log: Final = logging.getLogger("aliquot.agents")


class AgentKeys(Protocol):
    """Tells keys that hold from those that do not. Asked again while a connection lasts."""

    def verify(self, agent_id: AgentId, key: str) -> bool:
        """Whether the key is this agent's, and was not revoked."""

    def known(self) -> frozenset[AgentId]:
        """The agents that have a key which holds."""


class KeyFile:
    """`AgentKeys` in a JSON file, that commands change while the server runs; and `KeyChanges`, to be told of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._records = KeyRecords({}, [])

    def verify(self, agent_id: AgentId, key: str) -> bool:
        """See `AgentKeys`. Reads the file when it changed.

        Raises:
            OSError, ValueError: the file cannot be read.
        """
        entry = self.entries().get(agent_id)
        given = _hash(key)
        return entry is not None and entry.revoked_us is None and hmac.compare_digest(entry.sha256, given)

    def known(self) -> frozenset[AgentId]:
        """See `AgentKeys`."""
        return frozenset(id for id, entry in self.entries().items() if entry.revoked_us is None)

    def entries(self) -> Mapping[AgentId, KeyEntry]:
        """All keys, revoked ones included, in the order in which they were made."""
        return self._current().entries

    def create(self, agent_id: AgentId, *, now_us: int, replace: bool = False, by: str = SERVER) -> str:
        """Make a key, and return it; this is the only time that it can be seen.

        Raises:
            InvalidRequest: the id cannot be one.
            StateConflict: the agent has a key that holds, and it is not to be replaced.
        """
        check_agent_id(agent_id)
        key = KEY_PREFIX + secrets.token_urlsafe(32)
        with self._changing() as records:
            old = records.entries.get(agent_id)
            if old is not None and old.revoked_us is None and not replace:
                text = f"{agent_id} has a key already; revoke it first, or give --replace"
                raise StateConflict(text, id=agent_id, state="has a key")
            records.entries[agent_id] = KeyEntry(sha256=_hash(key), created_us=now_us)
            records.untold.append(_change(agent_id, "created" if old is None else "replaced", by=by, at_us=now_us))
        return key

    def revoke(self, agent_id: AgentId, *, now_us: int, by: str = SERVER) -> None:
        """Take a key out of use; an agent that is connected by it is cut off.

        Raises:
            NotFound: the agent has no key that holds.
        """
        with self._changing() as records:
            old = records.entries.get(agent_id)
            if old is None or old.revoked_us is not None:
                raise NotFound(f"{agent_id} has no key", kind="agent key", id=agent_id)
            revoked = KeyEntry(sha256=old.sha256, created_us=old.created_us, revoked_us=now_us)
            records.entries[agent_id] = revoked
            records.untold.append(_change(agent_id, "revoked", by=by, at_us=now_us))

    def untold(self) -> Sequence[KeyChange]:
        """See `KeyChanges`."""
        return self._current().untold

    def told(self, ids: Collection[str]) -> None:
        """See `KeyChanges`."""
        with self._changing() as records:
            records.untold[:] = [change for change in records.untold if change.id not in ids]

    def _current(self) -> KeyRecords:
        """Read anew when the file changed."""
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
        """Two commands at once change the file one after the other; readers see the old one or the new one."""
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            records = read_records(self._path)
            yield records
            write_records(self._path, records)
        finally:
            os.close(lock)


def key_refusal(keys: AgentKeys, *, agent_id: str, key: str) -> str | None:
    """Why nobody may dial in so, in words; None when he may."""
    try:
        if keys.verify(AgentId(agent_id), key):
            return None
    except (OSError, ValueError) as error:
        log.error("the agents' keys cannot be read: %s", error)
        return "the server cannot read its agents' keys; its log says more"
    log.warning("somebody tried to dial in as %.80r with a key that is not its own, or was revoked", agent_id)
    return f"the key is not the one of {agent_id[:80]}, or was revoked: `aliquot agent key create` makes one"


def check_agent_id(agent_id: str) -> None:
    """An id becomes a header and the name of a folder.

    Raises:
        InvalidRequest: this one cannot.
    """
    allowed = all(character.isalnum() or character in "-_." for character in agent_id) and agent_id.isascii()
    if not allowed or agent_id.startswith((".", "-")) or not 0 < len(agent_id) <= ID_CHARACTERS_MAX:
        raise InvalidRequest(
            f"{agent_id[:80]!r} cannot be an agent's id: letters, digits and -_. after a letter or digit", field="id"
        )


def _change(agent_id: AgentId, what: str, *, by: str, at_us: int) -> KeyChange:
    id_ = f"{REQUEST_PREFIX}{uuid_utils.uuid7()}"
    return KeyChange(id=id_, agent_id=agent_id, what=what, by=by, at_us=at_us)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()
