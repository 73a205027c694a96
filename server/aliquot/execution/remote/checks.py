"""Agent checks: whether a node meets an agent's requirements and reaches the server, without joining it."""

import asyncio
import os
import shutil
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.cgroups import can_gate, find_groups
from aliquot.execution.agent.job_user import JobUser, resolve_user
from aliquot.execution.devices.node import node_identity
from aliquot.execution.devices.nvml import NvmlPlugin
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot.execution.remote.agent_setup import AgentOptions, agent_folder, agent_node, software_version
from aliquot.execution.remote.codec import ChannelClosed, ProtocolError
from aliquot.execution.remote.dialing import (
    ServerAddress,
    Unreachable,
    connection_fault,
    dialled,
    expires_soon,
    introduce,
    read_key,
    server_address,
)
from aliquot.execution.remote.session import Refused
from aliquot_schema.cluster.agent_protocol import PROTOCOLS, Hello, Welcome
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import AgentId

FREE_BYTES_MIN: Final = 1 << 30


class CheckSeverity(StrEnum):
    """Severity of a check's result."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    """The agent would not start or not work."""


class CheckResult(Struct, frozen=True, kw_only=True):
    """Result of one check."""

    name: str
    grade: CheckSeverity
    seen: str
    to_do: str = ""


def _ok(name: str, seen: str) -> CheckResult:
    return CheckResult(name=name, grade=CheckSeverity.OK, seen=seen)


def _warn(name: str, seen: str, *, to_do: str) -> CheckResult:
    return CheckResult(name=name, grade=CheckSeverity.WARN, seen=seen, to_do=to_do)


def _fail(name: str, seen: str, *, to_do: str) -> CheckResult:
    return CheckResult(name=name, grade=CheckSeverity.FAIL, seen=seen, to_do=to_do)


def check_node(options: AgentOptions) -> list[CheckResult]:
    """Run all checks of the node. Blocks on disk I/O and drivers."""
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
        return _ok(name, "not needed: the accelerators are mocks")
    plugin = NvmlPlugin()
    try:
        gpus = plugin.discover()
        version = plugin.attributes().get("nvidia.driver_version", "of unknown version")
        if gpus:
            return _ok(name, f"driver {version}, {len(gpus)} GPUs")
        return _warn(name, plugin.diagnosis or "no GPUs", to_do="nothing, if this node provides only CPUs and memory")
    finally:
        plugin.close()


def _devices(options: AgentOptions) -> tuple[CheckResult, AgentId | None]:
    """Load the plugins, discover the devices, and check the device file if there is one."""
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
        return _fail(name, str(error), to_do=to_do), None
    kinds = Counter(device.kind for device in found)
    seen = ", ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "none"
    seen = f"agent {node.agent_id}: {seen}"
    if failures or not found:
        seen = "; ".join([seen, *(f"{kind}: {message}" for kind, message in failures.items())])
        return _fail(name, seen, to_do="fix or remove the plugin"), node.agent_id
    return _ok(name, seen), node.agent_id


def _groups(folder: Path) -> CheckResult:
    name = "control groups"
    if find_groups(folder) is not None:
        return _ok(name, "version 2: jobs are killed by cgroup.kill; memory is limited by rlimits")
    return _warn(
        name,
        "not writable: jobs are killed by a subreaper; memory is limited by rlimits",
        to_do="run the agent as root, or as a systemd unit with Delegate=yes",
    )


def _device_files(folder: Path) -> CheckResult:
    name = "files of devices"
    if can_gate(find_groups(folder)):
        seen = "access to GPUs not granted to a job can be denied, except to MIG slices"
        return _ok(name, seen)
    return _warn(
        name,
        "jobs are kept to their GPUs by environment variables only",
        to_do="run the agent as root, with cgroup version 2",
    )


def _account(options: AgentOptions) -> tuple[JobUser | None, CheckResult]:
    name = "accounts of jobs"
    try:
        user = resolve_user(options.user_policy, asked=None, uid=os.geteuid(), environment=os.environ)
    except AliquotError as error:
        return None, _fail(name, error.message, to_do="choose one with --job-user")
    if user.switches:
        return user, _ok(name, f"jobs run as {user.name}; the agent can switch")
    return user, _warn(
        name,
        f"jobs run as {user.name}, like the agent: they can read its files, including the key",
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
        return _fail(name, seen, to_do="choose another with --data-folder")
    seen = f"{data_folder} on a disk with {free_bytes / 1e9:.1f} GB free"
    closed = None if user is None else _closed_to(user, place)
    if closed is not None and closed != data_folder.absolute():
        seen += f"; {user.name if user else ''} has no execute permission on {closed}"
        return _fail(name, seen, to_do=f"chmod o+x {closed}, or choose another folder")
    if free_bytes < FREE_BYTES_MIN:
        return _warn(name, seen, to_do="free disk space: job outputs are kept there")
    return _ok(name, seen)


def _closed_to(user: JobUser, place: Path) -> Path | None:
    """The topmost folder of the path without execute permission for the account; None = all are passable."""
    for path in (*reversed(place.parents), place):
        found = path.stat()
        shift = 6 if found.st_uid == user.uid else 3 if found.st_gid in user.groups else 0
        if user.uid != 0 and not found.st_mode >> shift & 1:
            return path
    return None


REACH_S_MAX: Final = 5.0
CLOCK_S_MAX: Final = 2.0


async def check_server(
    server: str, *, key_file: Path | None, ca_file: Path | None, agent_id: AgentId, now_us: Callable[[], int]
) -> list[CheckResult]:
    """Check address, connection, key and clock, in this order, up to the first failure."""
    try:
        address = server_address(server, ca_file=ca_file)
    except ConfigurationError as error:
        return [_fail("server", str(error), to_do="correct --server")]
    reached = await _reach(address, now_us=now_us)
    if reached.grade is CheckSeverity.FAIL:
        return [reached]
    if key_file is None:
        without = _warn("key", "not checked", to_do="pass it with --key-file")
        return [reached, without]
    try:
        return [reached, *await _introduce(address, key=read_key(key_file), agent_id=agent_id, now_us=now_us)]
    except ConfigurationError as error:
        return [reached, _fail("key", str(error), to_do="correct the key file")]


async def _reach(address: ServerAddress, *, now_us: Callable[[], int]) -> CheckResult:
    name = "reach of the server"
    place = f"{address.host}:{address.port}"
    try:
        async with asyncio.timeout(REACH_S_MAX):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=address.tls_context())
    except (OSError, TimeoutError) as error:
        seen = f"{place}: {connection_fault(error, address)}"
        return _fail(name, seen, to_do="correct what the message names")
    certificate: Mapping[str, str] = writer.get_extra_info("peercert") or {}
    writer.transport.abort()
    if address.has_tls:
        begins, ends = _time_of(certificate["notBefore"]), _time_of(certificate["notAfter"])
        if expires_soon(begins, ends, now=datetime.fromtimestamp(now_us() / 1e6, UTC)):
            seen = f"{place}, TLS with a certificate that expires on {ends:%Y-%m-%d at %H:%M} UTC"
            return _warn(name, seen, to_do="renew it on the server, which loads the new file by itself")
        return _ok(name, f"{place}, TLS with a valid certificate")
    if address.host in ("127.0.0.1", "::1", "localhost"):
        return _ok(name, f"{place}, on this host")
    return _warn(name, f"{place}, unencrypted: the key can be read", to_do="use https")


def _time_of(text: str) -> datetime:
    """A time as OpenSSL prints it, like `Jan  5 09:34:43 2030 GMT`."""
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)


async def _introduce(
    address: ServerAddress, *, key: str, agent_id: AgentId, now_us: Callable[[], int]
) -> list[CheckResult]:
    hello = Hello(
        agent_id=agent_id,
        boot_id=node_identity().boot_id,
        instance="check",
        software_version=software_version(),
        protocols=PROTOCOLS,
        probe=True,
    )
    try:
        async with asyncio.timeout(REACH_S_MAX), dialled(address, agent_id=agent_id, key=key) as channel:
            before_us = now_us()
            welcome = await introduce(channel, hello)
            after_us = now_us()
    except (Refused, Unreachable, ChannelClosed, ProtocolError, TimeoutError) as error:
        seen = str(error) or f"no answer ({type(error).__name__})"
        return [_fail("key and protocol", seen, to_do="follow the server's message")]
    seen = f"accepted as {agent_id} by {welcome.software_version}, protocol {welcome.protocol}"
    return [
        _ok("key and protocol", seen),
        _clock(welcome, before_us=before_us, after_us=after_us),
    ]


def _clock(welcome: Welcome, *, before_us: int, after_us: int) -> CheckResult:
    """Clock difference; the server read its clock between the two times."""
    off_s = (welcome.now_us - (before_us + after_us) / 2) / 1e6
    seen = f"the server's is {abs(off_s):.3f} s {'ahead' if off_s > 0 else 'behind'}"
    if abs(off_s) <= CLOCK_S_MAX + (after_us - before_us) / 1e6:
        return _ok("clock", seen)
    return _warn("clock", seen, to_do="synchronise both clocks by NTP")
