"""Agent folder: the files of one agent.

    lock            held by the agent that uses the folder
    epoch.json      the highest leader epoch seen
    devices.json    the devices last reported to the server, including held ones that are leaving
    kernels/        one folder per kernel, see `KernelFolder`
    sessions/       one folder per session, shared by its attempts: checkpoint/ and result/, owned by the job user;
                    acknowledged.json, see `checkpoints`; and copied, see `results.sending`
    workspaces/     uploaded working directories, see `workspaces.cache`; only the agent may enter it
    clock           its time of change is the last time of the node that retention trusted
    drafts/         unfinished files; emptied at each start
    spawner.log     stderr of the spawner and its shims

Job users may pass through the folders but read only their own files.
"""

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from aliquot.execution.agent.job_user import WORK, JobUser
from aliquot.execution.agent.json_files import FORMAT, claim_file, flush_folder, read_file, replace_file, write_file
from aliquot.execution.agent.spawner.records import is_locked, take_lock
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.errors import AliquotError, InvalidRequest, Unavailable
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SessionId, SlotName, kernel_parts
from aliquot_schema.resources.devices import Device, ResourceSpec
from aliquot_schema.resources.slots import Unlimited, format_amount, is_size, parse_amount


class KernelFolder:
    """The files of one kernel. All methods block on disk I/O.

    order.json     the order, boot id and cgroup                            0600, owned by the agent
    resource.json  the resource spec, see `spec_fields`                     0644
    lock           locked by the shim during its life                       0600
    claim          winner of the start: a shim, a stop or a refusal         0600
    pid.json       pids of the shim and of the job's process                0600
    request.json   stop request to the shim: {"what", "grace_ms"}           0600
    limit.json     a later time limit: {"time_limit_ms"}                    0600
    pull.json      progress of the pull of its image, see `spawner.pull`    0600
    preflight.json  mark: the check before the job has passed               0600
    go.json        mark: the job may start, the other ranks have passed too  0600
    resumed.json   the checkpoint it started from: {"kept_ms", "note"}      0600
    exit.json      exit record, written when all processes have ended       0600
    metrics.json   metrics found in the output so far, see `results.metrics`  0600
    forgotten      mark: the server has stored the end durably              0600
    output.log     stdout and stderr of the job                             0600, owned by the job user
    work/          initial working directory of the job                     0700, owned by the job user

    Each JSON file is an object with `format` = 1. The folder is created by a rename, with a complete order in it, or
    with only a claim if a stop came before the order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernel_id = KernelId(path.name)
        self.order = path / "order.json"
        self.resource = path / "resource.json"
        self.lock = path / "lock"
        self.claim = path / "claim"
        self.pid = path / "pid.json"
        self.request = path / "request.json"
        self.limit = path / "limit.json"
        self.pull = path / "pull.json"
        self.preflight = path / "preflight.json"
        self.go = path / "go.json"
        self.resumed = path / "resumed.json"
        self.exit = path / "exit.json"
        self.forgotten = path / "forgotten"
        self.output = path / "output.log"
        self.work = path / WORK

    @property
    def session_id(self) -> SessionId:
        """The session that the kernel is a part of."""
        return kernel_parts(self.kernel_id)[0]

    def create(
        self,
        order: LaunchOrder,
        *,
        agent_id: AgentId,
        boot_id: str,
        group: str | None,
        user: JobUser,
        drafts: Path,
        fill: Callable[[Path], None] | None = None,
    ) -> bool:
        """Create the folder durably with order, resource spec and the job's files; False if it exists already.

        The caller flushes the parent folder.

        Args:
            fill: writes files into the work folder, which no job can enter meanwhile.
        """
        with self._draft(drafts) as draft:
            stored = replace(order, secrets=tuple(replace(grant, value=None) for grant in order.secrets))
            fields = {"format": FORMAT, "boot_id": boot_id, "group": group, "order": msgspec.to_builtins(stored)}
            write_file(draft.order, fields)
            write_file(draft.resource, spec_fields(order, agent_id=agent_id), mode=0o644)
            draft.work.mkdir(mode=0o700)
            if fill is not None:
                fill(draft.work)
            for path in (draft.lock, draft.output):
                path.touch(mode=0o600)
            if user.switches:
                for path in (draft.work, draft.output):
                    os.chown(path, user.uid, user.gid)
            flush_folder(draft.path)
            return self._publish(draft.path)

    def close_to_starts(self, fields: dict[str, object], *, drafts: Path) -> bool:
        """Claim the kernel so that it can never start; False if it is claimed already.

        Args:
            fields: `by` (`stop` or `agent`), and for a refusal by the agent `code` and `message`.
        """
        claim = {"format": FORMAT, **fields}
        if not self.path.exists():
            with self._draft(drafts) as draft:
                write_file(draft.claim, claim)
                is_published = self._publish(draft.path)
            if is_published:
                flush_folder(self.path.parent)
                return True
        return claim_file(self.claim, claim)

    def read_order(self) -> tuple[LaunchOrder, str, str | None] | None:
        """(order, boot id at that time, cgroup); None if there is no order.

        Raises:
            ValueError: the file is malformed.
        """
        fields = read_file(self.order)
        if fields is None:
            return None
        return msgspec.convert(fields["order"], LaunchOrder), str(fields["boot_id"]), fields["group"]

    def read_spec(self) -> ResourceSpec | None:
        """The stored resource spec; None if the file is missing or malformed."""
        try:
            fields = read_file(self.resource)
            return None if fields is None else _spec_from(fields)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AliquotError):
            return None

    @contextmanager
    def _draft(self, drafts: Path) -> Iterator["KernelFolder"]:
        """A new folder, which is deleted if the block fails: what it holds may be what fills the disk."""
        draft = KernelFolder(drafts / f"{self.kernel_id}.{os.urandom(8).hex()}")
        draft.path.mkdir()
        try:
            draft.path.chmod(0o711)  # independent of the umask
            yield draft
        except BaseException:
            shutil.rmtree(draft.path, ignore_errors=True)
            raise

    def _publish(self, draft: Path) -> bool:
        try:
            draft.rename(self.path)
        except OSError:
            if not self.path.exists():
                raise
            shutil.rmtree(draft)
            return False
        return True


def spec_fields(order: LaunchOrder, *, agent_id: AgentId) -> dict[str, object]:
    """Contents of the resource spec file: the kernel's identity, and `slots` as `{slot: {device id: amount}}`.

    Amounts are decimal strings: shares like `"0.60"`, sizes in bytes.
    """
    session_id, attempt, rank = kernel_parts(order.kernel_id)
    return {
        "format": FORMAT,
        "session": session_id,
        "attempt": attempt,
        "rank": rank,
        "agent": agent_id,
        "epoch": order.epoch,
        "slots": {
            slot: {device: str(amount) if is_size(slot) else format_amount(slot, amount) for device, amount in given}
            for slot, given in ((slot, sorted(amounts.items())) for slot, amounts in sorted(order.spec.items()))
        },
    }


def _spec_from(fields: dict[str, Any]) -> ResourceSpec:
    """Parse the file; ValueError, KeyError, TypeError or AttributeError if it is malformed."""
    spec: dict[SlotName, dict[DeviceId, int]] = {}
    for slot, amounts in fields["slots"].items():
        spec[SlotName(slot)] = {}
        for device, text in amounts.items():
            amount = parse_amount(slot, text)
            if isinstance(amount, Unlimited):
                raise ValueError(f"{slot} of {device} is unlimited")
            spec[SlotName(slot)][DeviceId(device)] = amount
    return spec


_log: Final = logging.getLogger(__name__)
_LOCK: Final = "lock"
_KERNEL_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,120}\.[0-9]{1,9}\.[0-9]{1,9}", re.ASCII)


class AgentFolder:
    """The paths of one agent. All methods block on disk I/O."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernels = path / "kernels"
        self.sessions = path / "sessions"
        self.drafts = path / "drafts"
        self.clock = path / "clock"
        self.spawner_log = path / "spawner.log"
        self._epoch = path / "epoch.json"
        self._devices = path / "devices.json"
        self._lock: int | None = None
        self._sessions_lock = Lock()
        """Held while the folder of a session is opened for a kernel or moved away."""

    def open(self) -> None:
        """Create the folder if it is missing, and lock it.

        Raises:
            Unavailable: another agent uses it.
        """
        for path in (self.path, self.kernels, self.sessions, self.drafts):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)
            path.chmod(0o711)
        (self.path / "workspaces").mkdir(mode=0o700, exist_ok=True)
        lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if not take_lock(lock):
            os.close(lock)
            raise Unavailable(f"another agent uses the folder {self.path}")
        self._lock = lock
        for draft in self.drafts.iterdir():
            if draft.is_dir() and not draft.is_symlink():
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)
        flush_folder(self.path)

    def close(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def kernel(self, kernel_id: KernelId) -> KernelFolder:
        """The folder of a kernel; it need not exist.

        Raises:
            InvalidRequest: the id is not a kernel id, so it must not become a path.
        """
        if _KERNEL_ID.fullmatch(kernel_id) is None:
            raise InvalidRequest(f"{kernel_id[:80]!r} is not a kernel id", field="kernel_id")
        return KernelFolder(self.kernels / kernel_id)

    def known_kernels(self) -> Iterator[KernelFolder]:
        """All kernels on disk, sorted by id."""
        for name in sorted(os.listdir(self.kernels)):
            if _KERNEL_ID.fullmatch(name):
                yield KernelFolder(self.kernels / name)

    def session(self, session_id: SessionId, *, user: JobUser) -> Path:
        """The folder shared by all attempts of a session; created if it is missing."""
        path = self.sessions / session_id
        with self._sessions_lock:
            path.mkdir(exist_ok=True)
        path.chmod(0o711)  # independent of the umask
        for part in (path / "checkpoint", path / "result"):
            try:
                part.mkdir(mode=0o700)
            except FileExistsError:
                continue
            if user.switches:
                os.chown(part, user.uid, user.gid)
        return path

    def delete(self, kernel_id: KernelId) -> bool:
        """Delete a kernel's folder, if it exists; False if the disk does not allow that now. Links are not followed."""
        return _deleted(self._moved_away(self.kernel(kernel_id).path))

    def delete_session(self, session_id: SessionId) -> bool:
        """Delete a session's shared folder, if no kernel of it is on disk. As `delete`.

        A kernel is on disk before it opens this folder, so none loses a folder that it has opened.
        """
        with self._sessions_lock:
            if any(kernel_parts(known.kernel_id)[0] == session_id for known in self.known_kernels()):
                return False
            trash = self._moved_away(self.sessions / session_id)
        return _deleted(trash)

    def read_epoch(self) -> int:
        """The highest leader epoch seen; 0 = none yet."""
        fields = read_file(self._epoch)
        return 0 if fields is None else int(fields["epoch"])

    def write_epoch(self, epoch: int) -> None:
        """Store an epoch durably."""
        replace_file(self._epoch, {"format": FORMAT, "epoch": epoch})

    def read_devices(self) -> tuple[Device, ...]:
        """The devices stored last; empty before the first time.

        Raises:
            OSError, ValueError: the file cannot be read.
        """
        fields = read_file(self._devices)
        return () if fields is None else msgspec.convert(fields.get("devices"), tuple[Device, ...])

    def write_devices(self, devices: Sequence[Device]) -> None:
        """Store the agent's devices durably: the only description of held devices that leave the configuration."""
        replace_file(self._devices, {"format": FORMAT, "devices": msgspec.to_builtins(list(devices))})

    def _moved_away(self, path: Path) -> Path | None:
        """Move a folder to `drafts`, to be deleted there; a missing one counts as moved. None: the disk refuses now."""
        trash = self.drafts / f"{path.name}.{os.urandom(8).hex()}"
        try:
            path.rename(trash)
        except FileNotFoundError:
            return trash
        except OSError as error:
            _log.warning("%s cannot be deleted yet: %s", path, error)
            return None
        return trash


def _deleted(trash: Path | None) -> bool:
    if trash is not None:
        shutil.rmtree(trash, ignore_errors=True)  # the rest is deleted at the next start
    return trash is not None


def is_taken(path: Path) -> bool:
    """Whether an agent in any process uses this folder."""
    return is_locked(str(path / _LOCK))
