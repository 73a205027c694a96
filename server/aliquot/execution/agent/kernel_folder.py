"""Kernel folder: the files of one kernel.

    order.json     the order, boot id and cgroup                            0600, owned by the agent
    resource.json  the resource spec, see `spec_fields`                     0644
    lock           locked by the shim during its life                       0600
    claim          winner of the start: a shim, a stop or a refusal         0600
    pid.json       pids of the shim and of the job's process                0600
    request.json   stop request to the shim: {"what", "grace_ms"}           0600
    exit.json      exit record, written when all processes have ended       0600
    forgotten      mark: the server has stored the end durably              0600
    output.log     stdout and stderr of the job                             0600, owned by the job user
    work/          initial working directory of the job                     0700, owned by the job user

Each JSON file is an object with `format` = 1. The folder is created by a rename, with a complete order in it, or with
only a claim if a stop came before the order.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.json_files import FORMAT, claim_file, flush_folder, read_file, write_file
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SlotName, kernel_parts
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.slots import Unlimited, format_amount, is_size, parse_amount

WORK: Final = "work"


class KernelFolder:
    """The paths of one kernel. All methods block on disk I/O."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernel_id = KernelId(path.name)
        self.order = path / "order.json"
        self.resource = path / "resource.json"
        self.lock = path / "lock"
        self.claim = path / "claim"
        self.pid = path / "pid.json"
        self.request = path / "request.json"
        self.exit = path / "exit.json"
        self.forgotten = path / "forgotten"
        self.output = path / "output.log"
        self.work = path / WORK

    def create(
        self, order: LaunchOrder, *, agent_id: AgentId, boot_id: str, group: str | None, user: JobUser, drafts: Path
    ) -> bool:
        """Create the folder durably with order, resource spec and the job's files; False if it exists already.

        The caller flushes the parent folder.
        """
        draft = self._draft(drafts)
        stored = replace(order, secrets=tuple(replace(grant, value=None) for grant in order.secrets))
        fields = {"format": FORMAT, "boot_id": boot_id, "group": group, "order": msgspec.to_builtins(stored)}
        write_file(draft.order, fields)
        write_file(draft.resource, spec_fields(order, agent_id=agent_id), mode=0o644)
        draft.work.mkdir(mode=0o700)
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
            draft = self._draft(drafts)
            write_file(draft.claim, claim)
            if self._publish(draft.path):
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

    def _draft(self, drafts: Path) -> "KernelFolder":
        draft = KernelFolder(drafts / f"{self.kernel_id}.{os.urandom(8).hex()}")
        draft.path.mkdir()
        draft.path.chmod(0o711)  # independent of the umask
        return draft

    def _publish(self, draft: Path) -> bool:
        try:
            draft.rename(self.path)
        except OSError:
            shutil.rmtree(draft)
            if not self.path.exists():
                raise
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
