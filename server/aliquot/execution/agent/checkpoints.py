"""Checkpoints: notes which checkpoint of a session is acknowledged, and brings it to the agent that goes on with it.

A job of rank 0 acknowledges a checkpoint by writing or replacing `CHECKPOINT_DIR/DONE`, or by `CHECKPOINT_EXIT_CODE`.
Acknowledged checkpoints are copied to the shared folder, if one is configured, as `<session>/<run time in ms>/`. Copies
are made with the permissions of the job's account. All methods block on disk I/O.
"""

import logging
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.job_user import JobUser, acting_as
from aliquot.execution.agent.json_files import FORMAT, read_file, replace_file
from aliquot.execution.agent.kernels import KernelHandle
from aliquot_schema.cluster.launching import CheckpointOrder
from aliquot_schema.ids import AgentId, kernel_parts
from aliquot_schema.sessions import CHECKPOINT_DONE, CHECKPOINT_EXIT_CODE

FOLDER: Final = "checkpoint"
"""CHECKPOINT_DIR within a session's folder."""
_ACKNOWLEDGED: Final = "acknowledged.json"
"""Beside it: `kept_ms`, the kernel that acknowledged it, and the mark of DONE (None = by the exit code)."""
_log: Final = logging.getLogger(__name__)

Mark = tuple[int, int]
"""Inode and change time (nanoseconds) of DONE. A job cannot set the change time."""


class Checkpoints:
    """The acknowledged checkpoints of one agent's sessions."""

    def __init__(self, agent_id: AgentId, *, folder: AgentFolder, shared: Path | None) -> None:
        """
        Args:
            shared: folder that all agents see; None = checkpoints stay on their agent.
        """
        self._agent_id = agent_id
        self._folder = folder
        self._shared = shared

    def resume(self, kernel: KernelHandle, *, user: JobUser) -> None:
        """Find the newest acknowledged checkpoint of a session that is about to start here.

        Sets `resumed_ms` and `resume_note` of the kernel, and stores them for the next run of this agent.
        """
        assert kernel.order is not None
        order = kernel.order.checkpoint
        path = self._folder.session(kernel.session_id, user=user)
        kernel.resumed_ms, kernel.resume_note = self._kept_ms(path), None
        if kernel.resumed_ms < order.kept_ms:
            try:
                kernel.resume_note = self._fetch(kernel, order, path=path, user=user)
            except OSError as error:
                kernel.resume_note = f"its checkpoint cannot be copied from {self._shared}: {error.strerror}"
        if kernel.resumed_ms or order.kept_ms:
            found = {"format": FORMAT, "kept_ms": kernel.resumed_ms, "note": kernel.resume_note}
            replace_file(kernel.folder.resumed, found)

    def look(self, kernel: KernelHandle, *, ended: dict[str, Any] | None = None) -> bool:
        """Note a checkpoint that the kernel has acknowledged since the last call; returns whether there is one.

        Args:
            ended: its exit record.
        Raises:
            OSError: the disk cannot be written; the next call tries again.
        """
        if kernel_parts(kernel.kernel_id)[2] != 0:
            return False
        path = self._folder.sessions / kernel.session_id
        # The end of a kernel waits for a look that is under way: its last report holds what that look finds.
        with kernel.checkpoint_lock:
            mark = _mark(path)
            if mark is not None and mark != kernel.checkpoint_mark:
                began_us = _began_us(kernel)
                found = None
                if began_us is not None and mark[1] // 1000 >= began_us:
                    found = self._acknowledge(kernel, path, mark, ran_ms=(mark[1] // 1000 - began_us) // 1000)
                kernel.checkpoint_mark = mark  # last: what a full disk did not take is noted by the next call
                if found is not None:
                    return found
            if ended is not None and ended["exit_code"] == CHECKPOINT_EXIT_CODE:
                return self._acknowledge(kernel, path, None, ran_ms=ended["ran_ms"] or 0)
            return False

    def share(self, kernel: KernelHandle) -> None:
        """Copy the last acknowledged checkpoint of a kernel to the shared folder, and delete older copies there.

        Nothing is copied if the job replaces DONE meanwhile: the next call copies the newer checkpoint. Errors are
        logged.
        """
        with kernel.copy_lock:
            kept_ms = kernel.saved_ms
            if self._shared is None or kept_ms is None or kernel.is_shared:
                return
            source = self._folder.sessions / kernel.session_id
            try:
                place = self._shared_folder(kernel, owner=os.lstat(source / FOLDER))
                with _opened(place) as target, _opened(source) as path, _as_owner(path / FOLDER):
                    is_whole = _copy(path, target=target, name=str(kept_ms))
                with kernel.checkpoint_lock:
                    kernel.is_shared = is_whole and kernel.saved_ms == kept_ms
            except (OSError, shutil.Error) as error:
                _log.warning("the checkpoint of %s cannot be copied to %s: %s", kernel.session_id, self._shared, error)

    def _acknowledge(self, kernel: KernelHandle, path: Path, mark: Mark | None, *, ran_ms: int) -> bool:
        kept_ms = (kernel.resumed_ms or 0) + ran_ms
        if kernel.saved_ms is not None and kept_ms <= kernel.saved_ms:
            return False
        fields = {"format": FORMAT, "kept_ms": kept_ms, "kernel_id": kernel.kernel_id, "mark": mark}
        replace_file(path / _ACKNOWLEDGED, fields)
        kernel.saved_ms, kernel.is_shared = kept_ms, self._shared is None
        return True

    def _fetch(self, kernel: KernelHandle, order: CheckpointOrder, *, path: Path, user: JobUser) -> str | None:
        """Copy a better checkpoint from the shared folder; returns why that was not possible, or None."""
        if self._shared is None:
            if order.agent_id == self._agent_id:
                return f"its last checkpoint is no longer in the folder of agent {self._agent_id}"
            return (
                f"its last checkpoint is on agent {order.agent_id}, and agent {self._agent_id} has no shared folder "
                "for checkpoints (checkpoint-folder)"
            )
        place = self._shared / kernel.session_id
        found = [kept_ms for kept_ms in _copies(place) if (kernel.resumed_ms or 0) < kept_ms <= order.kept_ms]
        if not found:
            return f"its last checkpoint is on agent {order.agent_id}, and {self._shared} has no copy of it"
        if kernel_parts(kernel.kernel_id)[2] == 0 or not any((path / FOLDER).iterdir()):
            draft = path / f"{FOLDER}.draft"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(mode=0o700)
            if user.switches:
                os.chown(draft, user.uid, user.gid)
            with _opened(place) as source, _opened(path) as target, _as_owner(draft):
                shutil.copytree(source / str(max(found)), target / draft.name, symlinks=True, dirs_exist_ok=True)
            if any((path / FOLDER).iterdir()):
                (path / FOLDER).rename(path / f"{FOLDER}.before-{kernel.attempt}")
            else:
                (path / FOLDER).rmdir()
            draft.rename(path / FOLDER)
            fields = {"format": FORMAT, "kept_ms": max(found), "kernel_id": None, "mark": _mark(path)}
            replace_file(path / _ACKNOWLEDGED, fields)
            kernel.resumed_ms = max(found)
        return None if max(found) == order.kept_ms else "its last checkpoint was not copied before its agent was lost"

    def _kept_ms(self, path: Path) -> int:
        """Run time that the acknowledged checkpoint in a session's folder holds; 0 = there is none."""
        try:
            found = read_file(path / _ACKNOWLEDGED)
        except (OSError, ValueError) as error:
            _log.warning("%s cannot be read: %s", path / _ACKNOWLEDGED, error)
            return 0
        if found is None or (found["mark"] is not None and _mark(path) is None):
            return 0
        return int(found["kept_ms"])

    def _shared_folder(self, kernel: KernelHandle, *, owner: os.stat_result) -> Path:
        assert self._shared is not None
        place = self._shared / kernel.session_id
        try:
            place.mkdir(mode=0o700)
        except FileExistsError:
            return place
        if os.geteuid() == 0:
            os.chown(place, owner.st_uid, owner.st_gid)
        return place


def _began_us(kernel: KernelHandle) -> int | None:
    """When a kernel's job could begin, by the clock of its files: its shim writes the file of pids just before."""
    try:
        return os.lstat(kernel.folder.pid).st_ctime_ns // 1000
    except FileNotFoundError:
        return None


def _mark(path: Path) -> Mark | None:
    """The mark of DONE in a session's folder; None if it is not a regular file."""
    try:
        found = os.lstat(path / FOLDER / CHECKPOINT_DONE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (found.st_ino, found.st_ctime_ns) if stat.S_ISREG(found.st_mode) else None


def _copy(path: Path, *, target: Path, name: str) -> bool:
    """Copy a session's CHECKPOINT_DIR to `target / name`; False if DONE was replaced meanwhile."""
    before = _mark(path)
    draft, done = target / "draft", target / name
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(path / FOLDER, draft, symlinks=True)
    if _mark(path) != before:
        return False
    if not done.exists():
        draft.rename(done)
    for other in _copies(target):
        if other < int(name):
            shutil.rmtree(target / str(other), ignore_errors=True)
    return True


def _copies(place: Path) -> list[int]:
    """Run times of the complete copies in a session's shared folder."""
    try:
        return sorted(int(name) for name in os.listdir(place) if name.isdecimal())
    except FileNotFoundError:
        return []


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """A path to a folder that works for accounts without access to the folders above it."""
    folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{folder}")
    finally:
        os.close(folder)


@contextmanager
def _as_owner(path: Path) -> Iterator[None]:
    """Access files as the account that owns a folder."""
    owner = os.lstat(path)
    with acting_as(owner.st_uid, owner.st_gid):
        yield
