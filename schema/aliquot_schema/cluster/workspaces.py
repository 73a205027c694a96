"""Workspaces: a working directory as it was when a session was submitted, with the addresses of its contents.

A file is a list of blocks, each named by its SHA-256; a file of at most one block is named by its own hash. The
listing of all files, a `Workspace`, is named by the hash of its JSON. A stream with a `WorkspaceUse` brings a workspace
to an agent: the server sends a head (8 bytes, big endian: its length) and the listing, the agent answers with a
`WorkspaceWanted` in one line, and the server sends the wanted blocks in that order, each after 8 bytes with its length.
The agent answers with a second line when it has all of them.
"""

import hashlib
import json
import re
from itertools import accumulate
from typing import Final

from msgspec import Struct, field, to_builtins

from aliquot_schema.cluster.results import path_fault
from aliquot_schema.ids import WORKSPACE_ID, UserId

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""Every block of a file but its last one has this size."""
FILES_MAX: Final = 10_000
LISTING_BYTES_MAX: Final = 8 * 1024 * 1024
DIFF_CHARS_MAX: Final = 1024 * 1024
BYTES_MAX: Final = 2**40
NAME_CHARS_MAX: Final = 256
RECORD: Final = ".aliquot/environment.json"
"""File in RESULT_DIR with the Python that a session ran with, see `EnvironmentRecord`."""
_HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}", re.ASCII)


class WorkspaceFile(Struct, frozen=True, kw_only=True):
    """A regular file or a symbolic link."""

    path: str
    """Relative to the working directory, with `/` between its parts."""
    size: int = 0
    blocks: tuple[str, ...] = ()
    """SHA-256 of each block, in order."""
    executable: bool = False
    link: str | None = None
    """Target of a symbolic link, relative to the link's folder; None = a regular file."""

    @property
    def sized_blocks(self) -> tuple[tuple[str, int], ...]:
        """(SHA-256, bytes) of each block, in order."""
        return tuple((block, min(BLOCK_BYTES, self.size - at * BLOCK_BYTES)) for at, block in enumerate(self.blocks))


class GitState(Struct, frozen=True, kw_only=True):
    """The commit that the working directory was at, and what differed from it."""

    commit: str
    branch: str | None = None
    diff: str = ""
    """`git diff HEAD`, without files that git does not track."""
    is_cut: bool = False
    """Whether the difference was longer than `DIFF_CHARS_MAX` and is not here; the files themselves are complete."""


class Workspace(Struct, frozen=True, kw_only=True):
    """All files of a working directory, by path."""

    files: tuple[WorkspaceFile, ...] = ()
    git: GitState | None = None

    @property
    def bytes_total(self) -> int:
        """Size of all files."""
        return sum(file.size for file in self.files)

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """(SHA-256, bytes) of each different block."""
        return tuple({block: size for file in self.files for block, size in file.sized_blocks}.items())

    def encoded(self) -> bytes:
        """JSON; the same workspace always has the same."""
        return json.dumps(to_builtins(self), separators=(",", ":")).encode()

    @property
    def id(self) -> str:
        """Its name: 40 hexadecimal digits of the SHA-256 of the JSON."""
        return hashlib.sha256(self.encoded()).hexdigest()[:40]


class WorkspaceUse(Struct, frozen=True, kw_only=True):
    """A stored workspace, and whose it is."""

    owner: UserId
    id: str


class WorkspaceFault(Struct, frozen=True, kw_only=True):
    """Why a workspace was not brought to an agent."""

    message: str
    is_everywhere: bool
    """Whether other agents would not get it either."""


class WorkspaceWanted(Struct, frozen=True, kw_only=True):
    """The agent's answer to a listing: what it lacks."""

    blocks: tuple[str, ...] = ()


class WorkspaceUpload(Struct, frozen=True, kw_only=True):
    """The server's answer to a listing of a client."""

    id: str
    missing: tuple[str, ...]
    """Blocks to send; empty = the workspace is stored."""
    files: int
    bytes: int


class EnvironmentRecord(Struct, frozen=True, kw_only=True):
    """The Python that a session's command found, written by the node before the command starts."""

    environment: str | None = None
    """The environment that it asked for."""
    python: str | None = None
    """Version; None = there is no Python."""
    executable: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    """Versions by name."""


def workspace_fault(workspace: Workspace) -> str | None:
    """Message about the first invalid value; None = valid.

    No file is below a link, so that a workspace can be unpacked without following one.
    """
    if len(workspace.files) > FILES_MAX:
        return f"it has {len(workspace.files)} files; {FILES_MAX} are allowed. List others in .gitignore"
    paths = [file.path for file in workspace.files]
    if paths != sorted(set(paths)):
        return "the files are not in the order of their paths, or a path is given twice"
    leaves, sizes = set(paths), dict[str, int]()
    for file in workspace.files:
        fault = _file_fault(file)
        if fault is not None:
            return f"{file.path[:80]!r}: {fault}"
        for block, size in file.sized_blocks:
            if sizes.setdefault(block, size) != size:
                return f"{file.path[:80]!r}: block {block[:12]} has {size} bytes here and {sizes[block]} elsewhere"
        parents = list(accumulate(file.path.split("/"), lambda above, part: f"{above}/{part}"))[:-1]
        if not leaves.isdisjoint(parents):
            return f"{file.path[:80]!r} is below another file or link"
    return None if workspace.git is None else _git_fault(workspace.git)


def _file_fault(file: WorkspaceFile) -> str | None:
    if path_fault(file.path) is not None or any(len(part.encode()) > 255 for part in file.path.split("/")):
        return "the path is not valid"
    if file.link is not None:
        return _link_fault(file)
    if not 0 <= file.size <= BYTES_MAX:
        return "the size is out of range"
    if len(file.blocks) != -(-file.size // BLOCK_BYTES):
        return "the number of blocks is not that of its size"
    return None if all(map(_HASH.fullmatch, file.blocks)) else "a SHA-256 is not valid"


def _link_fault(file: WorkspaceFile) -> str | None:
    assert file.link is not None
    if file.size or file.blocks or file.executable:
        return "a link has no content"
    if not 0 < len(file.link) <= 1024 or not file.link.isprintable():
        return "a link must have a target of 1 to 1024 printable characters"
    if file.link.startswith("/"):
        return "a link must be relative"
    depth = file.path.count("/")
    for part in file.link.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return "the link leads out of the working directory"
    return None


def _git_fault(git: GitState) -> str | None:
    if _COMMIT.fullmatch(git.commit) is None:
        return "git: the commit is not valid"
    if git.branch is not None and len(git.branch) > NAME_CHARS_MAX:
        return f"git: the branch has more than {NAME_CHARS_MAX} characters"
    return None if len(git.diff) <= DIFF_CHARS_MAX else f"git: the diff has more than {DIFF_CHARS_MAX} characters"


def use_fault(use: WorkspaceUse) -> str | None:
    """Message about a workspace that cannot exist; None = valid."""
    return None if WORKSPACE_ID.fullmatch(use.id) else "workspace: it is not the id of a workspace"
