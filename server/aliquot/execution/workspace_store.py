"""Workspace store: uploaded working directories by user, in a folder or in S3-compatible storage.

    <hash of the user>/blocks/<SHA-256>     a block of a file
    <hash of the user>/listings/<id>.json   a workspace

A listing's time of change is its last use. All methods block on I/O, and raise OSError.
"""

import hashlib
import io
import time
from collections.abc import Mapping, Set
from typing import Final

import msgspec

from aliquot.execution.result_store import ObjectStorage
from aliquot_schema.cluster.workspaces import (
    BLOCK_BYTES,
    LISTING_BYTES_MAX,
    Workspace,
    WorkspaceUse,
    workspace_fault,
)
from aliquot_schema.ids import UserId

UPLOAD_S: Final = 86_400.0
"""Blocks that no listing names are kept for so long: their upload may not be complete."""
_BLOCKS: Final = "blocks"
_LISTINGS: Final = "listings"
_JSON: Final = ".json"


class StoredWorkspaces:
    """The workspaces of all users."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage

    def blocks(self, owner: UserId) -> Mapping[str, int]:
        """Sizes of a user's blocks."""
        return {name: size for name, (size, _) in self._storage.entries(f"{_place(owner)}/{_BLOCKS}").items()}

    def keep(self, owner: UserId, data: bytes) -> str:
        """Store a block; returns its hash."""
        block = hashlib.sha256(data).hexdigest()
        self._storage.write(f"{_place(owner)}/{_BLOCKS}/{block}", io.BytesIO(data))
        return block

    def finish(self, owner: UserId, workspace: Workspace) -> None:
        """Store a listing, or mark it as used now."""
        self._storage.write(_listing(owner, workspace.id), io.BytesIO(workspace.encoded()))

    def read(self, owner: UserId, id: str) -> Workspace | None:
        """A listing; None if there is none.

        Raises:
            FileNotFoundError: it is damaged.
        """
        return self._read(_listing(owner, id))

    def block(self, owner: UserId, block: str) -> bytes:
        """A content.

        Raises:
            FileNotFoundError: it is missing, or damaged; a damaged one is deleted, so that it is uploaded again.
        """
        path = f"{_place(owner)}/{_BLOCKS}/{block}"
        data = b"".join(self._storage.read(path, length=BLOCK_BYTES))
        if hashlib.sha256(data).hexdigest() != block:
            self._storage.delete(path)
            raise FileNotFoundError(f"block {block} is damaged")
        return data

    def check_there(self, owner: UserId) -> None:
        """Check that this is the store that a user's workspaces were stored in.

        Raises:
            OSError: its folder has nothing of the user, as when it is not mounted.
        """
        self._storage.check_there(_place(owner))

    def expire(self, kept_s: float, *, used: Set[WorkspaceUse], owner: UserId | None = None) -> int:
        """Delete listings that were last used before that time, and blocks that no listing names; returns how many
        listings."""
        held = {_listing(use.owner, use.id) for use in used}
        places = self._storage.folders() if owner is None else [_place(owner)]
        return sum(self._expire(place, kept_s, held) for place in places)

    def _expire(self, place: str, kept_s: float, held: Set[str]) -> int:
        now, deleted, named = time.time(), 0, set[str]()
        for name, (_, changed) in self._storage.entries(f"{place}/{_LISTINGS}").items():
            path = f"{place}/{_LISTINGS}/{name}"
            if path not in held and now - changed > kept_s:
                self._storage.delete(path)
                deleted += 1
            elif (found := self._read(path)) is not None:
                named.update(block for block, _ in found.blocks)
        for block, (_, changed) in self._storage.entries(f"{place}/{_BLOCKS}").items():
            if block not in named and now - changed > min(kept_s, UPLOAD_S):
                self._storage.delete(f"{place}/{_BLOCKS}/{block}")
        return deleted

    def _read(self, path: str) -> Workspace | None:
        try:
            data = b"".join(self._storage.read(path, length=LISTING_BYTES_MAX))
            found = msgspec.json.decode(data, type=Workspace)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise FileNotFoundError(f"the listing {path} is not valid: {error}") from None
        fault = workspace_fault(found)
        if fault is not None:
            raise FileNotFoundError(f"the listing {path} is not valid: {fault}")
        return found


def _place(owner: UserId) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()[:32]


def _listing(owner: UserId, id: str) -> str:
    return f"{_place(owner)}/{_LISTINGS}/{id}{_JSON}"
