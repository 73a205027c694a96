"""What an agent needs of its node, looked at before anything is started."""

import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.cgroups import find_groups
from aliquot.execution.agent.device_access import can_gate
from aliquot.execution.agent.job_user import JobUser, resolve_user
from aliquot.execution.devices.nvml import NvmlPlugin
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot.execution.remote.agent_setup import AgentOptions, agent_folder, agent_node
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import AgentId

FREE_BYTES_MIN: Final = 1 << 30


class Grade(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    """The agent would not start, or not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What was looked at, and found."""

    name: str
    grade: Grade
    seen: str
    to_do: str = ""


def check_node(options: AgentOptions) -> list[CheckResult]:
    """Look at everything but the server. Blocks on disk and drivers."""
    devices, agent_id = _devices(options)
    folder = options.data_folder if agent_id is None else agent_folder(options, agent_id)
    user, account = _account(options)
    return [
        _driver(options),
        devices,
        _groups(folder),
        _device_files(folder),
        account,
        _folder(options.data_folder, user),
    ]


def _driver(options: AgentOptions) -> CheckResult:
    name = "NVIDIA driver, NVML"
    if options.accelerators is not None or options.demo_node is not None:
        return CheckResult(name=name, grade=Grade.OK, seen="not needed: the accelerators are mock ones")
    plugin = NvmlPlugin()
    try:
        gpus = plugin.discover()
        version = plugin.attributes().get("nvidia.driver_version", "of unknown version")
        if gpus:
            return CheckResult(name=name, grade=Grade.OK, seen=f"driver {version}, {len(gpus)} GPUs")
        return CheckResult(
            name=name,
            grade=Grade.WARN,
            seen=plugin.diagnosis or "no GPUs",
            to_do="nothing, when this node is to give CPUs and memory alone",
        )
    finally:
        plugin.close()


def _devices(options: AgentOptions) -> tuple[CheckResult, AgentId | None]:
    """The accelerators' file, when there is one, is read and held against what its plugins find."""
    name = "devices"
    try:
        node = agent_node(options)
        try:
            found = node.devices.discover()
            failures = dict(node.devices.failures)
        finally:
            node.devices.close()
    except (ConfigurationError, DeviceFileError) as error:
        to_do = f"correct {options.accelerators}" if options.accelerators else "correct the options"
        return CheckResult(name=name, grade=Grade.FAIL, seen=str(error), to_do=to_do), None
    kinds = Counter(device.kind for device in found)
    seen = ", ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "none"
    seen = f"agent {node.agent_id}: {seen}"
    if failures or not found:
        seen = "; ".join([seen, *(f"{kind}: {words}" for kind, words in failures.items())])
        return CheckResult(name=name, grade=Grade.FAIL, seen=seen, to_do="mend or remove the plugin"), node.agent_id
    return CheckResult(name=name, grade=Grade.OK, seen=seen), node.agent_id


def _groups(folder: Path) -> CheckResult:
    name = "control groups"
    if find_groups(folder) is not None:
        return CheckResult(
            name=name, grade=Grade.OK, seen="version 2: jobs are ended by cgroup.kill; memory by rlimits"
        )
    return CheckResult(
        name=name,
        grade=Grade.WARN,
        seen="none that can be written: jobs are ended by a subreaper; memory by rlimits",
        to_do="run the agent as root, or as a systemd unit with Delegate=yes",
    )


def _device_files(folder: Path) -> CheckResult:
    name = "files of devices"
    if can_gate(find_groups(folder)):
        seen = "the kernel can keep jobs from GPUs that are not theirs, where these are not cut into slices"
        return CheckResult(name=name, grade=Grade.OK, seen=seen)
    return CheckResult(
        name=name,
        grade=Grade.WARN,
        seen="variables alone tell jobs which GPUs are theirs",
        to_do="run the agent as root, with control groups of version 2",
    )


def _account(options: AgentOptions) -> tuple[JobUser | None, CheckResult]:
    name = "accounts of jobs"
    try:
        user = resolve_user(options.user_policy, asked=None, uid=os.geteuid(), environment=os.environ)
    except AliquotError as error:
        return None, CheckResult(name=name, grade=Grade.FAIL, seen=error.message, to_do="give one with --job-user")
    if user.switches:
        return user, CheckResult(name=name, grade=Grade.OK, seen=f"jobs run as {user.name}; the agent can switch")
    return user, CheckResult(
        name=name,
        grade=Grade.WARN,
        seen=f"jobs run as {user.name}, like the agent: they can reach its files, the key too",
        to_do="run the agent as root, with --job-user",
    )


def _folder(data_folder: Path, user: JobUser | None) -> CheckResult:
    name = "data folder"
    place = next(path for path in (data_folder.absolute(), *data_folder.absolute().parents) if path.is_dir())
    try:
        with tempfile.TemporaryFile(dir=place):
            free_bytes = shutil.disk_usage(place).free
    except OSError as error:
        seen = f"{place} cannot be written: {error.strerror}"
        return CheckResult(name=name, grade=Grade.FAIL, seen=seen, to_do="give another with --data-folder")
    seen = f"{data_folder} on a disk with {free_bytes / 1e9:.1f} GB free"
    closed = None if user is None else _closed_to(user, place)
    if closed is not None and closed != data_folder.absolute():
        seen += f"; {user.name if user else ''} cannot pass {closed}"
        return CheckResult(name=name, grade=Grade.FAIL, seen=seen, to_do=f"chmod o+x {closed}, or another folder")
    if free_bytes < FREE_BYTES_MIN:
        return CheckResult(name=name, grade=Grade.WARN, seen=seen, to_do="make room: outputs of jobs are kept there")
    return CheckResult(name=name, grade=Grade.OK, seen=seen)


def _closed_to(user: JobUser, place: Path) -> Path | None:
    """The highest folder on the way that the account cannot pass."""
    for path in (*reversed(place.parents), place):
        found = path.stat()
        shift = 6 if found.st_uid == user.uid else 3 if found.st_gid in user.groups else 0
        if user.uid != 0 and not found.st_mode >> shift & 1:
            return path
    return None
