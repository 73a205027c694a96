"""One kernel on disk.

    order.json     what was ordered, with the boot id and the cgroup        0600, the agent's
    resource.json  the resource spec, see `spec_fields`                     0644
    lock           held by the shim for life                                0600
    claim          who was first: the shim (it started) or a stop           0600
    pid.json       the shim and the job's process                           0600
    request.json   what the shim is asked to do: {"what", "grace_ms"}       0600
    exit.json      everything has ended                                     0600
    forgotten      the server has the end durably: it is told no more       0600
    output.log     what the job wrote to stdout and stderr                  0600, the job user's
    work/          where the job starts                                     0700, the job user's

Each JSON file is an object with a `format` of 1. The folder appears by a rename: either with a whole order in it, or
with a claim alone, when a stop came before the order.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.json_files import FORMAT, claim_file, flush_folder, read_file, write_file
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SlotName, kernel_parts
from aliquot_schema.launching import LaunchOrder
from aliquot_schema.slots import Unlimited, format_amount, is_size, parse_amount

WORK: Final = "work"


class KernelFolder:
    """The paths of one kernel, and how its folder comes to be. Everything here blocks on the disk."""

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
        """Write an order and its resource spec durably, and make what the job needs; False when the kernel is known.

        The folder above is the caller's to flush.
        """
        draft = self._draft(drafts)
        told = replace(order, secrets=tuple(replace(grant, value=None) for grant in order.secrets))
        fields = {"format": FORMAT, "boot_id": boot_id, "group": group, "order": msgspec.to_builtins(told)}
        write_file(draft.order, fields)
        write_file(draft.resource, spec_fields(order, agent_id=agent_id), mode=0o644)
        draft.work.mkdir(mode=0o700)
        for path in (draft.lock, draft.output):
            path.touch(mode=0o600)
        if user.switches:
            for path in (draft.work, draft.output):
                os.chown(path, user.uid, user.gid)
        flush_folder(draft.path)
        return self._appear(draft.path)

    def close_to_starts(self, fields: dict[str, object], *, drafts: Path) -> bool:
        """Make the claim, so that no start can win any more; False when somebody else has it.

        Args:
            fields: `by` (stop or agent), and for an agent's refusal `code` and `message`.
        """
        claim = {"format": FORMAT, **fields}
        if not self.path.exists():
            draft = self._draft(drafts)
            write_file(draft.claim, claim)
            if self._appear(draft.path):
                flush_folder(self.path.parent)
                return True
        return claim_file(self.claim, claim)

    def read_order(self) -> tuple[LaunchOrder, str, str | None] | None:
        """(order, boot id at that time, cgroup); None when there is none.

        Raises:
            ValueError: it cannot be understood.
        """
        fields = read_file(self.order)
        if fields is None:
            return None
        return msgspec.convert(fields["order"], LaunchOrder), str(fields["boot_id"]), fields["group"]

    def read_spec(self) -> ResourceSpec | None:
        """The resource spec as the file has it; None where the file is missing or cannot be read."""
        try:
            fields = read_file(self.resource)
            return None if fields is None else _spec_from(fields)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AliquotError):
            return None

    def _draft(self, drafts: Path) -> "KernelFolder":
        draft = KernelFolder(drafts / f"{self.kernel_id}.{os.urandom(8).hex()}")
        draft.path.mkdir()
        draft.path.chmod(0o711)  # whatever the umask of the process is
        return draft

    def _appear(self, draft: Path) -> bool:
        try:
            draft.rename(self.path)
        except OSError:
            shutil.rmtree(draft)
            if not self.path.exists():
                raise
            return False
        return True


def spec_fields(order: LaunchOrder, *, agent_id: AgentId) -> dict[str, object]:
    """The resource spec file: whose it is, and `slots` as `{slot: {device id: amount}}`.

    Amounts are plain decimal text: shares as `"0.60"`, sizes in bytes.
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
    """Raises ValueError and the like where the file holds something else."""
    spec: dict[SlotName, dict[DeviceId, int]] = {}
    for slot, amounts in fields["slots"].items():
        spec[SlotName(slot)] = {}
        for device, text in amounts.items():
            amount = parse_amount(slot, text)
            if isinstance(amount, Unlimited):
                raise ValueError(f"{slot} of {device} is unlimited")
            spec[SlotName(slot)][DeviceId(device)] = amount
    return spec
