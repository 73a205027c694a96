"""Results of sessions: lists the files below RESULT_DIR and downloads them, over HTTP with ranges."""

import asyncio
import errno
import hashlib
import os
from abc import abstractmethod
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
import msgspec

from aliquot.client.errors import ClientFailure, ClusterUnavailable, Refused, ServerUnreachable, UnexpectedAnswer
from aliquot.client.generated.result_files import ResultFile, SessionFiles
from aliquot.client.requests import decoded, unexpected
from aliquot.client.retries import PATIENCE_S, RetryPolicy
from aliquot_schema.cluster.results import path_fault
from aliquot_schema.errors import Unauthenticated

RETRY_S: Final = PATIENCE_S
"""Time without progress after which a transfer fails; until then each new connection continues the last one."""
TURN_S_MAX: Final = 600.0
"""Longest time for which a transfer waits until the server accepts another one of its user."""
_PART: Final = ".part"
_HASH_DIGITS: Final = 16
_BLOCK_BYTES: Final = 2**20


class FileChanged(ClientFailure):
    """A downloaded file is not the one that was listed: it changed meanwhile."""


class Turn:
    """The waiting of one transfer while the server carries as many of its user as it does at the same time."""

    def __init__(self) -> None:
        self._left_s = TURN_S_MAX

    async def was_refused(self, answer: httpx.Response) -> bool:
        """Whether to send the request again, after the time that the server asks for."""
        if answer.status_code != httpx.codes.TOO_MANY_REQUESTS or self._left_s <= 0:
            return False
        asked = answer.headers.get("retry-after", "")
        wait_s = max(1.0, float(asked)) if asked.isdecimal() else 1.0
        self._left_s -= wait_s
        await asyncio.sleep(wait_s)
        return True


class ResultCalls:
    """Part of `Client`."""

    @property
    @abstractmethod
    def http(self) -> httpx.AsyncClient:
        """Sends requests to the server."""

    async def results(self, id: str, *, rank: int = 0) -> SessionFiles:
        """All files below RESULT_DIR of a session, on the agent of a rank.

        Raises:
            Refused: the session does not exist, has not started, or belongs to another user.
            ServerUnreachable, UnexpectedAnswer, Unauthenticated: see there.
        """
        try:
            answer = await self.http.get(f"/sessions/{quote(id, safe='')}/files", params={"rank": rank}, timeout=90)
        except httpx.TransportError as error:
            raise unreachable(error) from error
        check_answer(answer, answer.content)
        return decoded(answer, SessionFiles)

    async def download(
        self,
        id: str,
        path: str,
        target: Path,
        *,
        rank: int = 0,
        listed: ResultFile | None = None,
        retries: bool = True,
    ) -> int:
        """Download one result; returns its size in bytes.

        A broken connection is continued, as is an earlier call that was interrupted. The target appears when it is
        complete.

        Args:
            target: the file to write; its folder exists.
            listed: the file as it was listed, to check size and SHA-256.
            retries: whether to go on for `RETRY_S` without progress; otherwise the second failure ends it.
        Raises:
            FileChanged: it is not what was listed, or changed during the download.
            Refused, ServerUnreachable, UnexpectedAnswer, Unauthenticated: as for `results`.
            OSError: the target cannot be written.
        """
        address = f"/sessions/{quote(id, safe='')}/files/{quote(path)}"
        part, turn = _Part(target), Turn()
        patience = RetryPolicy(asyncio.sleep, patience_s=RETRY_S * retries, logs=retries)
        is_complete = False
        while not is_complete:
            size = part.size
            try:
                is_complete = await self._fetch(address, part, rank, turn)
            except (httpx.TransportError, ServerUnreachable) as error:
                if part.size > size:
                    patience.renew()
                await patience.pause(unreachable(error))
        return part.finish(listed)

    async def _fetch(self, address: str, part: "_Part", rank: int, turn: Turn) -> bool:
        """Download what is missing; False = to be repeated, as it was not yet this download's turn."""
        async with self.http.stream("GET", address, params={"rank": rank}, headers=part.headers()) as answer:
            if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE and part.size:
                return True
            if await turn.was_refused(answer):
                return False
            if not answer.is_success:
                check_answer(answer, await answer.aread())
            part.begin(answer)
            async for data in answer.aiter_bytes(_BLOCK_BYTES):
                part.write(data)
        return True


class _Part:
    """An unfinished download beside its target. A hash of the target's name and the entity tag of the content are in
    its name: the target's name itself may be as long as a name can be, or begin that of another file."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._prefix = f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:_HASH_DIGITS]}."
        found = sorted(target.parent.glob(f"{self._prefix}*{_PART}"))
        self._path = found[0] if found else None
        self._tag = found[0].name.removeprefix(self._prefix).removesuffix(_PART) if found else ""
        self.size = found[0].stat().st_size if found else 0
        """Bytes that are there."""

    def headers(self) -> dict[str, str]:
        """To continue after the bytes that are there, if the file is still the same."""
        rest = {"Range": f"bytes={self.size}-", "If-Range": f'"{self._tag}"'} if self.size else {}
        return {"Accept-Encoding": "identity", **rest}

    def begin(self, answer: httpx.Response) -> None:
        """Make the file for an answer; a whole file replaces what is there."""
        if answer.status_code == httpx.codes.PARTIAL_CONTENT:
            return
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        tag = answer.headers.get("etag", "").strip('"')
        self._tag = tag if tag.replace("-", "").isalnum() else ""
        self._path = self._target.with_name(f"{self._prefix}{self._tag}{_PART}")
        self._path.write_bytes(b"")
        self.size = 0

    def write(self, data: bytes) -> None:
        """Add content.

        Raises:
            OSError: it cannot be written, or another download of the same target writes it.
        """
        assert self._path is not None
        try:
            with open(self._path, "r+b") as file:
                if file.seek(0, os.SEEK_END) != self.size:
                    raise _taken()
                self.size += file.write(data)
        except FileNotFoundError:
            raise _taken() from None

    def finish(self, listed: ResultFile | None) -> int:
        """Check it and give it its name.

        Raises:
            OSError: as for `write`.
            FileChanged: it is not the file that was asked for.
        """
        assert self._path is not None
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            raise _taken() from None
        if size != self.size:
            raise _taken()
        size_now = int(self._tag.partition("-")[0] or "0", 16)
        is_listed = listed is None or (
            size == listed.size and (listed.sha256 is None or _sha256(self._path) == listed.sha256)
        )
        if size != size_now or not is_listed:
            self._path.unlink()
            raise FileChanged(f"{self._target.name} changed while it was downloaded; download it again")
        os.replace(self._path, self._target)
        return size


def _taken() -> BlockingIOError:
    return BlockingIOError(errno.EAGAIN, "another download of it is in progress, or has just ended; run it again")


def safe_target(folder: Path, path: str) -> Path:
    """Where a result is written below a folder of this machine.

    Raises:
        UnexpectedAnswer: the path leads out of the folder.
    """
    fault = path_fault(path)
    if fault is not None:
        raise UnexpectedAnswer(200, f"a result has a path that is not valid: {fault}")
    return folder / path


def unreachable(error: httpx.TransportError | ServerUnreachable) -> ServerUnreachable:
    """The failure of a transfer as an error of the client."""
    return error if isinstance(error, ServerUnreachable) else ServerUnreachable(str(error) or type(error).__name__)


def check_answer(answer: httpx.Response, content: bytes) -> None:
    """Raise the error of an HTTP answer: Refused, ServerUnreachable, UnexpectedAnswer or Unauthenticated."""
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        raise Unauthenticated(f"the server at {answer.url.netloc.decode()} does not accept this token")
    if answer.is_success:
        return
    try:
        problem = msgspec.json.decode(content, type=dict[str, object])
    except msgspec.MsgspecError:
        url = answer.url.netloc.decode()
        raise unexpected(answer.status_code, answer.reason_phrase.encode(), url=url) from None
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise ClusterUnavailable(str(problem.get("detail")))
    kind = "".join(word.capitalize() for word in str(problem.get("code")).split("_"))
    raise Refused({"__typename": kind, "message": str(problem.get("detail")), **problem})


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
