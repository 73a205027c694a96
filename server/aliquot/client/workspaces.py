"""Workspaces: uploads a working directory, without what `.gitignore` leaves out, and what the server has already."""

import asyncio
import hashlib
import os
import re
import stat
import subprocess
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import httpx

from aliquot.client.errors import ClientFailure, ServerUnreachable
from aliquot.client.files import RETRY_S, Turn, check_answer, unreachable
from aliquot.client.requests import decoded
from aliquot.client.retries import RetryPolicy
from aliquot_schema.cluster.results import path_fault
from aliquot_schema.cluster.workspaces import (
    BLOCK_BYTES,
    BYTES_MAX,
    DIFF_CHARS_MAX,
    FILES_MAX,
    GitState,
    Workspace,
    WorkspaceFile,
    WorkspaceUpload,
)
from aliquot_schema.resources.units import size_text

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

BATCH_BYTES: Final = 2 * BLOCK_BYTES
TRIES_MAX: Final = 3
"""Uploads of a listing whose blocks expire on the server meanwhile."""
UPLOAD_S: Final = 120.0
IGNORE_FILE: Final = ".gitignore"
_ALWAYS: Final = (".git/", ".venv/", "__pycache__/")


class WorkspaceFault(ClientFailure):
    """A working directory cannot be uploaded; the message names the file or the limit."""


class WorkspaceCalls:
    """Part of `Client`."""

    @property
    @abstractmethod
    def http(self) -> httpx.AsyncClient:
        """Sends requests to the server."""

    async def upload(self, folder: Path) -> WorkspaceUpload:
        """Upload a working directory; what the server has already is not sent.

        Left out are files that a `.gitignore` of the folder names, `.git`, `.venv` and `__pycache__`.

        Returns:
            The id for `CreateSessionInput.workspace`, and the number of files and bytes.
        Raises:
            WorkspaceFault: a file cannot be read, or there are more than 10,000.
            Refused: it is above a limit of the server, or the caller may not submit.
            ServerUnreachable, UnexpectedAnswer, Unauthenticated: see there.
        """
        workspace, sources = await asyncio.to_thread(_scan, folder)
        for _ in range(TRIES_MAX):
            answer = await self._post("/workspaces", workspace.encoded())
            found = decoded(answer, WorkspaceUpload)
            if not found.missing:
                return found
            for batch in _batches(found.missing, sources):
                await self._post("/workspaces/blocks", batch)
        raise WorkspaceFault(f"{folder}: the server lost parts of the upload {TRIES_MAX} times")

    async def workspace(self, id: str) -> Workspace | None:
        """The files that a session's working directory began with; None if nothing was uploaded for it.

        Raises:
            Refused: there is no such session, it belongs to another user, or the upload has expired.
            ServerUnreachable, UnexpectedAnswer, Unauthenticated: see there.
        """
        try:
            answer = await self.http.get(f"/sessions/{quote(id, safe='')}/workspace")
        except httpx.TransportError as error:
            raise unreachable(error) from error
        check_answer(answer, answer.content)
        return None if answer.content == b"null" else decoded(answer, Workspace)

    async def _post(self, path: str, body: bytes) -> httpx.Response:
        """Send a part of an upload; the server keeps one that it receives twice once."""
        headers = {"content-type": "application/octet-stream"}
        turn, patience = Turn(), RetryPolicy(asyncio.sleep, patience_s=RETRY_S, logs=True)
        while True:
            try:
                answer = await self.http.post(path, content=body, headers=headers, timeout=UPLOAD_S)
                if not await turn.was_refused(answer):
                    check_answer(answer, answer.content)
                    return answer
            except (httpx.TransportError, ServerUnreachable) as error:
                await patience.pause(unreachable(error))


_Sources = dict[str, tuple[Path, int]]
"""Of each block: a file that has it, and where."""


def _scan(folder: Path) -> tuple[Workspace, _Sources]:
    if not folder.is_dir():
        raise WorkspaceFault(f"{folder} is not a folder")
    files, sources = list[WorkspaceFile](), _Sources()
    for path in _paths(folder):
        name = path.relative_to(folder).as_posix()
        if path_fault(name) is not None:
            raise WorkspaceFault(f"{name!r} cannot be uploaded: {path_fault(name)}; list it in {IGNORE_FILE}")
        try:
            files.append(_file(path, name, sources))
        except OSError as error:
            raise WorkspaceFault(f"{path} cannot be read: {error.strerror}; list it in {IGNORE_FILE}") from None
        if len(files) > FILES_MAX:
            raise WorkspaceFault(f"{folder} has more than {FILES_MAX} files; list others in {IGNORE_FILE}")
    files.sort(key=lambda file: file.path)
    return Workspace(files=tuple(files), git=git_state(folder)), sources


def _file(path: Path, name: str, sources: _Sources) -> WorkspaceFile:
    if path.is_symlink():
        return WorkspaceFile(path=name, link=os.readlink(path))
    with open(path, "rb") as file:
        mode, size, blocks = os.fstat(file.fileno()).st_mode, 0, []
        while data := file.read(BLOCK_BYTES):
            block = hashlib.sha256(data).hexdigest()
            sources.setdefault(block, (path, size))
            size += len(data)
            blocks.append(block)
            if size > BYTES_MAX:
                raise WorkspaceFault(f"{path} has more than {size_text(BYTES_MAX)}; list it in {IGNORE_FILE}")
    return WorkspaceFile(path=name, size=size, blocks=tuple(blocks), executable=bool(mode & stat.S_IXUSR))


def _paths(folder: Path) -> Iterator[Path]:
    """Regular files and links that no `.gitignore` leaves out. A folder that is left out is not entered.

    Raises:
        WorkspaceFault: a folder or a `.gitignore` cannot be read.
    """
    try:
        from pathspec import GitIgnoreSpec
    except ImportError:
        raise WorkspaceFault("uploads of a working directory need pip install 'aliquot[sync]'") from None

    def walk(at: Path, rules: "list[tuple[Path, GitIgnoreSpec]]") -> Iterator[Path]:
        own = at / IGNORE_FILE
        if own.is_file():
            rules = [*rules, (at, _rules(own.read_text(encoding="utf-8-sig", errors="replace")))]
        with os.scandir(at) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
            if _is_left_out(path, rules, is_folder=is_folder):
                continue
            if is_folder:
                yield from walk(path, rules)
            elif entry.is_symlink() or entry.is_file():
                yield path

    try:
        yield from walk(folder, [(folder, GitIgnoreSpec.from_lines(_ALWAYS))])
    except OSError as error:
        raise WorkspaceFault(f"{error.filename} cannot be read: {error.strerror}; list it in {IGNORE_FILE}") from None


def _rules(text: str) -> "GitIgnoreSpec":
    """The rules of a `.gitignore`; as in git, a line that is no pattern matches nothing."""
    from pathspec import GitIgnoreSpec

    found = GitIgnoreSpec.from_lines([])
    for line in text.split("\n"):
        with suppress(ValueError, re.error):
            found += GitIgnoreSpec.from_lines([line])
    return found


def _is_left_out(path: Path, rules: "Iterable[tuple[Path, GitIgnoreSpec]]", *, is_folder: bool) -> bool:
    """The rules of the deepest folder that decide about the path win, as in git."""
    verdict = False
    for base, spec in rules:
        name = path.relative_to(base).as_posix() + ("/" if is_folder else "")
        found = spec.check_file(name).include
        verdict = verdict if found is None else found
    return verdict


def _batches(missing: Iterable[str], sources: _Sources) -> Iterator[bytes]:
    batch = bytearray()
    for block in missing:
        if block not in sources:
            raise WorkspaceFault("the server asks for a block that is not of the working directory")
        path, offset = sources[block]
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                data = file.read(BLOCK_BYTES)
        except OSError as error:
            raise WorkspaceFault(f"{path} cannot be read any more: {error.strerror}; submit again") from None
        if hashlib.sha256(data).hexdigest() != block:
            raise WorkspaceFault(f"{path} changed while it was uploaded; submit again")
        if batch and len(batch) + len(data) > BATCH_BYTES:
            yield bytes(batch)
            batch.clear()
        batch += len(data).to_bytes(8, "big") + data
    if batch:
        yield bytes(batch)


def git_state(folder: Path) -> GitState | None:
    """The commit that a folder is at, and the difference from it; None outside of a git repository."""
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    branch = (_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "").strip()
    diff = _git(folder, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD", "--", ".") or ""
    is_cut = len(diff) > DIFF_CHARS_MAX
    return GitState(
        commit=commit.strip(),
        branch=None if branch in ("", "HEAD") else branch[:256],
        diff="" if is_cut else diff,
        is_cut=is_cut,
    )


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")
