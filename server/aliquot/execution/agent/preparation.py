"""Preparation: checks a launch order, and turns it into a kernel folder, a job environment and a spawner request.
Blocks on disk I/O. A refusal is final for the attempt.

A job's environment is built here from scratch; nothing of the server's or agent's environment is inherited.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from aliquot.execution.agent.agent_folder import AgentFolder, KernelFolder
from aliquot.execution.agent.cgroups import Groups, can_gate, find_groups
from aliquot.execution.agent.checkpoints import Checkpoints
from aliquot.execution.agent.config import AgentConfig, own_address
from aliquot.execution.agent.isolation.containers import ContainerStart, own_environment
from aliquot.execution.agent.isolation.isolation import VARIABLE as SECRETS_DIR
from aliquot.execution.agent.isolation.isolation import AgentConfinement, secret_environment, secret_files
from aliquot.execution.agent.isolation.limits import Limits
from aliquot.execution.agent.isolation.pulls import CREDENTIALS, PULL_LIMIT_MS
from aliquot.execution.agent.job_user import JobUser, JobUsers
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.agent.preflight import OWN_CHECK
from aliquot.execution.agent.workspaces.activation import PACKAGES, activated, packages_of, variables
from aliquot.execution.agent.workspaces.cache import WorkspaceCache
from aliquot.execution.agent.workspaces.unpacking import unpack
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.cluster.agents import Capabilities
from aliquot_schema.cluster.launching import CheckpointOrder, LaunchOrder, PreflightOrder
from aliquot_schema.cluster.workspaces import Workspace
from aliquot_schema.errors import AliquotError, InvalidRequest, UnsupportedResource
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SlotName, kernel_parts
from aliquot_schema.resources.devices import Device, DeviceAccess, DeviceHealth, ResourceSpec
from aliquot_schema.resources.slots import format_amount


def start_request(
    order: LaunchOrder,
    *,
    folder: KernelFolder,
    boot_id: str,
    group: str | None,
    user: JobUser,
    environment: Mapping[str, str],
    limits: Limits,
    gates: Sequence[DeviceGate],
    sandbox: tuple[str, Sequence[str]] | None,
    secrets: Path,
    container: ContainerStart | None,
    check: Sequence[str] | None,
    pause_at: str | None,
) -> dict[str, object]:
    """The spawner request; its keys are the attributes of `spawner.order.Order`. Strings for the system become bytes.

    Args:
        sandbox: the sandbox program and its arguments.
        secrets: the folder for secret files.
        container: what runs the order in its image.
        check: the command line of the preflight.
    """
    argv, files = _activated(order, folder), secret_files(order, secrets)
    if container is not None:
        argv = tuple(container.argv)
        files = (str(secrets), [*([] if files is None else files[1]), *container.files])
        environment = own_environment(user) | {MARK: order.kernel_id}
    return {
        "kernel_id": str(order.kernel_id),
        "folder": str(folder.path.absolute()),
        "boot_id": boot_id,
        "argv": [os.fsencode(word) for word in argv],
        "environment": {os.fsencode(name): os.fsencode(text) for name, text in environment.items()},
        "working_directory": os.fsencode(_start_of(order, folder)),
        "is_container": container is not None,
        "is_daemons": container is not None and container.is_daemons,
        "user": (user.uid, user.gid, list(user.groups)) if user.switches else None,
        "limits": limits.of_process(order) if container is None else list(container.limits),
        "group": group,
        "gates": [(gate.major, gate.first, gate.last, list(gate.allowed)) for gate in gates],
        "limit_groups": limits.of_tree(order),
        "sandbox": None if sandbox is None else (os.fsencode(sandbox[0]), _ended(sandbox[1])),
        "secret_files": files,
        "time_limit_ms": order.time_limit_ms,
        "grace_ms": order.grace_ms,
        "not_after_us": order.not_after_us,
        "checkpoint": _asked_to_save(order.checkpoint),
        "preflight": _check_of(order.preflight, check),
        "pull": None if container is None else _pull_of(container),
        "pause_at": pause_at,
    }


def _activated(order: LaunchOrder, folder: KernelFolder) -> Sequence[str]:
    """The command, run within its workspace and environment if it has any."""
    is_plain = order.workspace is None and order.activates is None
    return order.argv if is_plain else activated(order, work=folder.work.absolute())


def _start_of(order: LaunchOrder, folder: KernelFolder) -> str | Path:
    """The working directory on the node; that of a container is an argument of its command line."""
    return folder.work.absolute() if order.image is not None else order.working_directory or folder.work.absolute()


def _asked_to_save(order: CheckpointOrder) -> tuple[int, int | None, int] | None:
    return None if order.signal is None else (order.signal, order.every_ms, order.before_limit_ms)


def _check_of(order: PreflightOrder | None, check: Sequence[str] | None) -> tuple[list[bytes], int, bool] | None:
    if order is None or check is None:
        return None
    return [os.fsencode(word) for word in check], order.limit_ms, not order.is_released


def _pull_of(container: ContainerStart) -> tuple[list[bytes], list[bytes], list[bytes], int, str] | None:
    if container.pull is None:
        return None
    has, fetch, size = ([os.fsencode(word) for word in words] for words in astuple(container.pull))
    return has, fetch, size, PULL_LIMIT_MS, CREDENTIALS if CREDENTIALS in dict(container.files) else ""


def _ended(arguments: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(argument) + b"\0" for argument in arguments)


MARK: Final = "ALIQUOT_ATTEMPT"
"""Environment variable with the kernel id; identifies a kernel's processes if their shim was killed."""

_OWN: Final = "ALIQUOT_"
_PASSED: Final = frozenset({"ALIQUOT_ARRAY_ID", "ALIQUOT_ARRAY_INDEX", "ALIQUOT_NODES"})
_APPS: Final = "ALIQUOT_APP_"
"""Variables with our prefix that the order may set, and the beginning of others: ports and the token of apps."""
_RESERVED: Final = frozenset({"CUDA_VISIBLE_DEVICES", "CHECKPOINT_DIR", "RESULT_DIR"})
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def job_environment(
    order: LaunchOrder,
    *,
    user: JobUser,
    devices: Mapping[str, str],
    agent_id: AgentId,
    work: Path,
    session: Path,
    resource_file: Path,
    secrets: Path,
    packages: Path | None = None,
) -> dict[str, str]:
    """Build a job's environment variables.

    Args:
        devices: variables of the device plugins for the order's spec.
        work: the kernel's work folder; HOME if the account has no home folder.
        session: the folder shared by all attempts of the session.
        secrets: the folder for secret files.
        packages: the folder of uv's cache; None = where uv puts it.
    Returns:
        Login variables, overridden by the user's (except reserved names), by secrets, device variables and Aliquot's.
    """
    session_id, _, rank = kernel_parts(order.kernel_id)
    login = {
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "HOME": user.home if Path(user.home).is_dir() else str(work),
        "USER": user.name,
        "LOGNAME": user.name,
        "SHELL": user.shell,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    asked = {name: text for name, text in order.environment.items() if not _is_reserved(name)}
    ours = {
        "CHECKPOINT_DIR": str(session / "checkpoint"),
        "RESULT_DIR": str(session / "result"),
        MARK: order.kernel_id,
        "ALIQUOT_KERNEL_ID": order.kernel_id,
        "ALIQUOT_SESSION_ID": session_id,
        "ALIQUOT_RANK": str(rank),
        "ALIQUOT_AGENT_ID": agent_id,
        "ALIQUOT_SLOTS": json.dumps(_totals(order)),
        "ALIQUOT_RESOURCE_FILE": str(resource_file),
    }
    if any(grant.use.as_file is not None for grant in order.secrets):
        ours[SECRETS_DIR] = str(secrets)
    own = login | asked
    activation = {} if order.activates is None else variables(order, own, work=work, packages=packages)
    return own | activation | secret_environment(order) | dict(devices) | ours


def _is_reserved(name: str) -> bool:
    is_passed = name in _PASSED or name.startswith(_APPS)
    return (name.startswith(_OWN) and not is_passed) or name in _RESERVED


def _totals(order: LaunchOrder) -> dict[str, str]:
    """Slot -> decimal string, summed over the devices."""
    return {slot: format_amount(slot, sum(amounts.values())) for slot, amounts in sorted(order.spec.items())}


class Preparation:
    """Prepares the kernels of one agent."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        folder: AgentFolder,
        device_environment: Callable[[ResourceSpec], Mapping[str, str]],
        device_gates: Callable[[ResourceSpec], Sequence[DeviceGate]],
    ) -> None:
        self._config = config
        self._folder = folder
        self._groups: Groups | None = None
        self._users = JobUsers(config.job_user)
        self._address = ""
        self._device_environment = device_environment
        self._device_gates = device_gates
        self._can_gate = False
        self.workspaces = WorkspaceCache(folder.path / "workspaces", packages=folder.path / PACKAGES)
        self.checkpoints = Checkpoints(config.id, folder=folder, shared=config.disk.checkpoint_folder)
        self.confinement = AgentConfinement(
            config.confinement, folder=config.folder, limit_memory=config.limit_memory, gates=device_gates
        )

    def inspect_host(self) -> None:
        """Detect the host's cgroups, device gates, address and isolation, and resolve the default job account.

        Raises:
            InvalidRequest, Forbidden: see `resolve_user`.
        """
        self._groups = find_groups(self._config.folder)
        self._can_gate = self._config.gate_devices and can_gate(self._groups)
        self._address = self._config.reach.address or own_address()
        self.confinement.inspect_host(self._groups, user=self.user_for(None))

    def capabilities(self) -> Capabilities:
        """The detected capabilities, as sent to the server."""
        found = Capabilities(
            kill="subreaper" if self._groups is None else "cgroup_v2",
            limits="rlimits" if self._config.limit_memory else "none",
            switches_user=os.geteuid() == 0,
            device_access=DeviceAccess.CGROUP if self._gates({}) else DeviceAccess.ENV,
            address=self._address,
            port_first=self._config.reach.port_first,
            port_last=self._config.reach.port_last,
        )
        return self.confinement.added_to(found)

    def refresh_images(self) -> bool:
        """List the images again if they may have changed; whether they did. Blocks."""
        return self.confinement.refresh_images(self.user_for(None))

    def group_of(self, kernel_id: KernelId) -> str | None:
        """The cgroup folder of a kernel; None without cgroup v2."""
        return None if self._groups is None else self._groups.of_kernel(kernel_id)

    def user_for(self, asked: str | None) -> JobUser:
        """The account that an order's job runs as.

        Raises:
            InvalidRequest, Forbidden: see `resolve_user`.
        """
        return self._users.of(asked)

    def try_sandboxes(self, orders: Sequence[LaunchOrder]) -> None:
        """Try the sandbox for accounts not tried yet (one process each), so that `check` does not block."""
        names = {order.user for order in orders if self.confinement.is_wanted(order)}
        for name in names:
            with suppress(AliquotError):  # `check` raises it again
                self.confinement.try_sandbox(self.user_for(name))

    def check(self, kernel: KernelHandle, order: LaunchOrder) -> None:
        """Refuse an order that cannot run as requested.

        Raises:
            AliquotError: see `resolve_user` and `AgentConfinement.check`.
        """
        user, session = self.user_for(order.user), self._folder.sessions / kernel.session_id
        self.confinement.check(order, user=user, kernel=kernel.folder, session=session)

    def write(self, kernel: KernelHandle) -> bool:
        """Write a new kernel's folder durably except its entry in the parent folder; False if it exists already."""
        order = kernel.order
        assert order is not None
        user, workspace = self.user_for(order.user), self._workspace(order)
        return kernel.folder.create(
            order,
            agent_id=self._config.id,
            boot_id=self._config.node.boot_id,
            group=kernel.group,
            user=user,
            drafts=self._folder.drafts,
            fill=None if workspace is None else lambda work: unpack(workspace, work, cache=self.workspaces, user=user),
        )

    def _workspace(self, order: LaunchOrder) -> Workspace | None:
        return None if order.workspace is None else self.workspaces.read(order.workspace.id)

    def request(self, kernel: KernelHandle, *, pause_at: str | None) -> dict[str, object]:
        """The spawner request of a kernel whose folder exists."""
        assert kernel.order is not None
        order, credentials = self.confinement.split(kernel.order)
        user = self.user_for(order.user)
        kernel.resumed_ms, kernel.resume_note = 0, None
        if kernel.attempt > 1 or order.checkpoint.kept_ms:
            self.checkpoints.resume(kernel, user=user)
        session: Path = self._folder.session(kernel.session_id, user=user)
        packages = None
        if order.workspace is not None:
            packages = packages_of(order, user=user, folder=self._folder.path.absolute())
        if packages is not None:
            self.workspaces.open_packages(packages, user=user)
        environment = job_environment(
            order,
            user=user,
            devices=self._device_environment(order.spec),
            agent_id=self._config.id,
            work=kernel.folder.work,
            session=session,
            resource_file=kernel.folder.resource,
            secrets=self.confinement.secrets.of(kernel.folder.path),
            packages=packages,
        )
        contained = partial(
            self.confinement.container,
            order,
            credentials=credentials,
            user=user,
            kernel=kernel.folder,
            session=session,
            environment=environment,
        )
        check = None
        if order.preflight is not None:
            asked = order.preflight.argv
            check = _activated(replace(order, argv=asked), kernel.folder) if asked else OWN_CHECK
        return start_request(
            order,
            folder=kernel.folder,
            boot_id=self._config.node.boot_id,
            group=kernel.group,
            user=user,
            environment=environment,
            limits=self.confinement.limits,
            gates=self._gates(order.spec),
            sandbox=self.confinement.sandbox(
                order, user=user, kernel=kernel.folder, session=session, environment=environment
            ),
            secrets=self.confinement.secrets.of(kernel.folder.path),
            container=contained(argv=_activated(order, kernel.folder)),
            check=None if check is None else inside.argv if (inside := contained(argv=check)) is not None else check,
            pause_at=pause_at,
        )

    def clean(self, kernel: KernelHandle, *, was_killed: bool) -> None:
        """Remove what an ended kernel left outside its folder.

        Args:
            was_killed: whether its container may still be there.
        """
        order = kernel.order
        if was_killed and order is not None and order.image is not None:
            with suppress(AliquotError):  # an account that is gone has no containers
                self.confinement.remove_container(kernel.folder, user=self.user_for(order.user))
        self.confinement.clean(kernel.folder)

    def _gates(self, spec: ResourceSpec) -> Sequence[DeviceGate]:
        return self._device_gates(spec) if self._can_gate else ()


_CLOSED: Final = frozenset({DeviceHealth.GONE, DeviceHealth.LEAVING})
"""Devices in these states accept no new kernels."""

STALE_EPOCH = "stale_epoch"
STALE_ATTEMPT = "stale_attempt"
TOO_LATE = "too_late"
REBOOTED = "rebooted"


class Refusal(Struct, frozen=True, kw_only=True):
    """Why an order is refused."""

    code: str
    """Code of an `AliquotError`, or a constant of this module."""
    message: str


def refuse_stale(
    order: LaunchOrder, *, attempt: int, epoch_seen: int, attempt_seen: int, now_us: int
) -> Refusal | None:
    """Refuse an order of an older leader or attempt, or one that arrives too late; None if it is fresh."""
    if order.epoch < epoch_seen:
        return Refusal(code=STALE_EPOCH, message=f"epoch {order.epoch} is over: {epoch_seen} was seen")
    if attempt < attempt_seen:
        return Refusal(code=STALE_ATTEMPT, message=f"attempt {attempt} is over: {attempt_seen} was seen")
    if order.not_after_us is not None and now_us > order.not_after_us:
        return Refusal(code=TOO_LATE, message="the order arrived after its expiry time")
    return None


def refuse_unknown(
    order: LaunchOrder, *, agent_id: AgentId, devices: Mapping[DeviceId, Device], slots: frozenset[SlotName]
) -> Refusal | None:
    """Refuse slots and devices that this agent does not have, and invalid commands or environments."""
    try:
        _check_text(order)
        for slot, amounts in order.spec.items():
            _check_slot(slot, amounts, agent_id=agent_id, devices=devices, slots=slots)
    except AliquotError as error:
        return Refusal(code=error.code, message=error.message)
    return None


def _check_slot(
    slot: SlotName,
    amounts: Mapping[DeviceId, int],
    *,
    agent_id: AgentId,
    devices: Mapping[DeviceId, Device],
    slots: frozenset[SlotName],
) -> None:
    wanted = {id: amount for id, amount in amounts.items() if amount != 0}
    if wanted and slot not in slots:
        requested = str(sum(wanted.values()))
        raise UnsupportedResource(f"agent {agent_id} has no slot {slot}", slot=slot, requested=requested)
    for id, amount in wanted.items():
        device = devices.get(id)
        if device is None or device.health in _CLOSED or device.capacity(slot) < amount:
            text = f"agent {agent_id} has no device {id} with {amount} of {slot}"
            raise UnsupportedResource(text, slot=slot, requested=str(amount))


def _check_text(order: LaunchOrder) -> None:
    texts = [*order.argv, *order.environment, *order.environment.values(), order.working_directory or ""]
    if not order.argv or not order.argv[0]:
        raise InvalidRequest("the command is empty", field="command")
    if any("\0" in text for text in texts):
        raise InvalidRequest("the command, environment or working directory contains a zero byte", field="command")
    if any("=" in name or not name for name in order.environment):
        raise InvalidRequest("the name of an environment variable is empty or contains '='", field="environment")
    try:
        "".join(texts).encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise InvalidRequest("the command or the environment is not valid UTF-8", field="command") from None
