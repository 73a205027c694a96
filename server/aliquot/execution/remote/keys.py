"""Agent keys: who may dial in as which agent. The first implementation is a file of the server."""

import fcntl
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from aliquot.execution.agent.json_files import FORMAT, read_file, replace_file
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict
from aliquot_schema.ids import AgentId

KEY_FILE: Final = "agent-keys.json"
KEY_PREFIX: Final = "agk_"
ID_CHARACTERS_MAX: Final = 120

log: Final = logging.getLogger("aliquot.agents")


class AgentKeys(Protocol):
    """Tells keys that hold from those that do not. Asked again while a connection lasts."""

    def verify(self, agent_id: AgentId, key: str) -> bool:
        """Whether the key is this agent's, and was not revoked."""

    def known(self) -> frozenset[AgentId]:
        """The agents that have a key which holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """What is kept of a key; the key itself is not."""

    sha256: str
    """A key has 256 random bits: a slow hash would make it no safer."""
    created_us: int
    revoked_us: int | None = None


class KeyFile:
    """`AgentKeys` in a JSON file, that commands change while the server runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._entries: dict[AgentId, KeyEntry] = {}

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
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._entries = None, {}
            return self._entries
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if stamp != self._seen:
            self._entries = _entries(read_file(self._path))
            self._seen = stamp
        return self._entries

    def create(self, agent_id: AgentId, *, now_us: int, replace: bool = False) -> str:
        """Make a key, and return it; this is the only time that it can be seen.

        Raises:
            InvalidRequest: the id cannot be one.
            StateConflict: the agent has a key that holds, and it is not to be replaced.
        """
        check_agent_id(agent_id)
        key = KEY_PREFIX + secrets.token_urlsafe(32)
        with self._changing() as entries:
            old = entries.get(agent_id)
            if old is not None and old.revoked_us is None and not replace:
                text = f"{agent_id} has a key already; revoke it first, or give --replace"
                raise StateConflict(text, id=agent_id, state="has a key")
            entries[agent_id] = KeyEntry(sha256=_hash(key), created_us=now_us)
        return key

    def revoke(self, agent_id: AgentId, *, now_us: int) -> None:
        """Take a key out of use; an agent that is connected by it is cut off.

        Raises:
            NotFound: the agent has no key that holds.
        """
        with self._changing() as entries:
            old = entries.get(agent_id)
            if old is None or old.revoked_us is not None:
                raise NotFound(f"{agent_id} has no key", kind="agent key", id=agent_id)
            entries[agent_id] = KeyEntry(sha256=old.sha256, created_us=old.created_us, revoked_us=now_us)

    @contextmanager
    def _changing(self) -> Iterator[dict[AgentId, KeyEntry]]:
        """Two commands at once change the file one after the other; readers see the old one or the new one."""
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = _entries(read_file(self._path))
            yield entries
            fields = {id: _fields(entry) for id, entry in entries.items()}
            replace_file(self._path, {"format": FORMAT, "keys": fields})
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


def _entries(fields: dict[str, Any] | None) -> dict[AgentId, KeyEntry]:
    try:
        return {} if fields is None else {AgentId(id): KeyEntry(**entry) for id, entry in fields["keys"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the file of agent keys is damaged: {error}") from None


def _fields(entry: KeyEntry) -> dict[str, object]:
    return {"sha256": entry.sha256, "created_us": entry.created_us, "revoked_us": entry.revoked_us}


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()
