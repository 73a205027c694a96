"""Isolation: applies limits, sandbox, device files and secrets to each order, as far as the host supports them."""

import hashlib
import os
import resource
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from aliquot.execution.agent.agent_folder import KernelFolder
from aliquot.execution.agent.cgroups import Groups
from aliquot.execution.agent.isolation.containers import (
    ENVIRONMENT,
    REGISTRY,
    Container,
    ContainerStart,
    Runtime,
    command,
    environment_file,
    find_runtime,
    has_cdi,
    held_images,
    remove,
)
from aliquot.execution.agent.isolation.limits import LimitGroups, Limits, find_limit_groups
from aliquot.execution.agent.isolation.pulls import CREDENTIALS, credentials_file, pull_commands
from aliquot.execution.agent.isolation.sandbox import (
    OwnFolders,
    find_bubblewrap,
    is_visible,
    sandbox_arguments,
    sandbox_fault,
)
from aliquot.execution.agent.isolation.settings import ConfinementRules, SandboxMode
from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.workspaces.activation import packages_of
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.cluster.agents import Capabilities
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.errors import AliquotError, InvalidRequest, NotFound, Unavailable, UnsupportedResource
from aliquot_schema.identity.secrets import SecretGrant
from aliquot_schema.resources.confinement import NO_LIMITS, SandboxProfile
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.slots import is_accelerator

VARIABLE: Final = "ALIQUOT_SECRETS_DIR"
_IMAGES_S: Final = 600.0
"""Seconds between two lists of images, which people can fetch and remove by hand."""
_UUIDS: Final = ("GPU-", "MIG-")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_IN_MEMORY: Final = ("tmpfs", "ramfs")


class SecretFolders:
    """The secret folders of one agent's kernels; each is created and removed by the kernel's shim."""

    def __init__(self, agent_folder: Path) -> None:
        self._agent_folder = agent_folder
        self._parent: Path | None = None

    def open(self) -> None:
        """Create the parent folder on an in-memory file system, if there is one. Blocks."""
        name = f"aliquot-{hashlib.sha256(os.fsencode(self._agent_folder.absolute())).hexdigest()[:16]}"
        for place in ("/run", "/dev/shm"):
            if _is_in_memory(place) and _create_own(Path(place, name)):
                self._parent = Path(place, name)
                return

    def of(self, kernel: Path) -> Path:
        """The secret folder of a kernel, given its folder; in that folder on disk without an in-memory file system."""
        return kernel / "secrets" if self._parent is None else self._parent / kernel.name

    def remove(self, kernel: Path) -> None:
        """Remove a secret folder that a killed shim, or folders made by the job, left behind. Blocks."""
        shutil.rmtree(self.of(kernel), ignore_errors=True)

    def close(self) -> None:
        """Remove the parent folder if it is empty."""
        if self._parent is not None:
            try:
                self._parent.rmdir()
            except OSError:
                return


def secret_environment(order: LaunchOrder) -> dict[str, str]:
    """Environment variables with secrets."""
    return {
        grant.use.as_env: grant.value
        for grant in order.secrets
        if grant.use.as_env is not None and grant.value is not None
    }


def secret_files(order: LaunchOrder, folder: Path) -> tuple[str, list[tuple[str, bytes]]] | None:
    """Secret files for the shim to write, see `spawner.order.Order.secret_files`."""
    files = [
        (grant.use.as_file, grant.value.encode(errors="surrogateescape"))
        for grant in order.secrets
        if grant.use.as_file is not None and grant.value is not None
    ]
    return (str(folder), files) if files else None


def _create_own(path: Path) -> bool:
    """Create a folder that only the agent may write to; False if it exists and another user owns it."""
    try:
        path.mkdir(mode=0o711, exist_ok=True)
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        path.chmod(0o711)
    except OSError:
        return False
    return True


def _is_in_memory(place: str) -> bool:
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == place and after.split()[0] in _IN_MEMORY:
            return True
    return False


_FOLDERS: Final = ("nvidia-caps", "dri", "infiniband")
_NAMES: Final = ("nvidia", "kfd")


def device_nodes(spec: ResourceSpec, gates: Sequence[DeviceGate], *, root: Path = Path("/dev")) -> list[str]:
    """Device files of accelerators visible in a kernel's sandbox; none if `spec` has no accelerator.

    Args:
        gates: the plugins' access rules for this spec; files that no rule covers are visible.
    """
    if not any(is_accelerator(slot) and sum(amounts.values()) for slot, amounts in spec.items()):
        return []
    return sorted(str(path) for path in _candidates(root) if _is_granted(path, gates))


def _candidates(root: Path) -> Iterator[Path]:
    for name in os.listdir(root):
        if name.startswith(_NAMES) and name not in _FOLDERS:
            yield root / name
    for folder in _FOLDERS:
        if (root / folder).is_dir():
            yield from (root / folder).iterdir()


def _is_granted(path: Path, gates: Sequence[DeviceGate]) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    if not stat.S_ISCHR(status.st_mode):
        return False
    major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    rules = [gate for gate in gates if gate.major == major and gate.first <= minor <= gate.last]
    return all(minor in gate.allowed for gate in rules)


Gates = Callable[[ResourceSpec], Sequence[DeviceGate]]


class AgentConfinement:
    """Isolation of the kernels of one agent."""

    def __init__(self, rules: ConfinementRules, *, folder: Path, limit_memory: bool, gates: Gates) -> None:
        self._rules = rules
        self._folder = Path(os.path.realpath(folder))
        self._limit_memory = limit_memory
        self._gates = gates
        self._fault = "the host has not been inspected"
        self._faults: dict[JobUser, str | None] = {}
        """Account -> why the sandbox does not work for it; None = it works."""
        self._runtime: Runtime | None = None
        self._runtime_program, self._runtime_fault, self._has_cdi = "", "the host has not been inspected", False
        self._images: tuple[str, ...] = ()
        self._images_due = 0.0
        """When they are listed again, seconds of the monotonic clock."""
        self.limits = Limits(rules=rules, groups=LimitGroups(), limit_memory=limit_memory)
        self.secrets = SecretFolders(folder)

    def inspect_host(self, groups: Groups | None, *, user: JobUser) -> None:
        """Detect the host's limits, and try the sandbox for the default job account. Blocks."""
        found = find_limit_groups(groups, folder=self._folder)
        self.limits = Limits(rules=self._rules, groups=found, limit_memory=self._limit_memory)
        self.secrets.open()
        self._runtime, self._runtime_program, self._runtime_fault = find_runtime(self._rules.containers, user)
        self._has_cdi = has_cdi()
        self.refresh_images(user)
        is_off = self._rules.sandbox is SandboxMode.OFF
        self._fault = "the setting sandbox is off" if is_off else self._try(user) or ""

    def added_to(self, capabilities: Capabilities) -> Capabilities:
        """The capabilities with the detected limits and sandbox."""
        return replace(
            capabilities,
            enforced=self.limits.enforced(),
            sandbox="none" if self._fault else str(SandboxProfile.STANDARD),
            sandbox_mode=str(self._rules.sandbox),
            sandbox_note=self._fault,
            containers="none" if self._runtime is None else str(self._runtime),
            containers_note=self._runtime_fault,
            images=self._images,
        )

    def refresh_images(self, user: JobUser) -> bool:
        """List the images of the default job account again if a container ended since, or after `_IMAGES_S`; whether
        they changed. Blocks."""
        before = self._images
        if self._runtime is not None and time.monotonic() >= self._images_due:
            self._images_due = time.monotonic() + _IMAGES_S
            found = held_images(self._runtime, self._runtime_program, user)
            self._images = before if found is None else found
        return self._images != before

    def on_container_end(self) -> None:
        """An image may have been fetched for it."""
        self._images_due = 0.0

    def is_wanted(self, order: LaunchOrder) -> bool:
        """Whether an order runs in the sandbox if there is one. A container is a sandbox of its own."""
        if order.image is not None:
            return False
        return order.sandbox is not None or self._rules.sandbox in (SandboxMode.REQUIRED, SandboxMode.WHEN_POSSIBLE)

    def try_sandbox(self, user: JobUser) -> None:
        """Try the sandbox for an account and cache the result. Blocks.

        Failures are retried at each call, because the host may have been too busy; a success is retried if bubblewrap
        is missing now.
        """
        if not self._fault and (self._faults.get(user, "") is not None or find_bubblewrap() is None):
            self._try(user)

    def check(self, order: LaunchOrder, *, user: JobUser, kernel: KernelFolder, session: Path) -> None:
        """Refuse an order that cannot be isolated as requested.

        Raises:
            InvalidRequest: a limit is above its maximum, or the working directory is not visible in the sandbox.
            Unavailable: the sandbox does not work, or a secret cannot be read. NotFound: a secret was deleted.
        """
        if order.limits != NO_LIMITS:
            self._rules.check(order.limits)
        if order.image is not None and self._runtime is None:
            text = f"no containers can be run here: {self._runtime_fault}"
            raise UnsupportedResource(text, slot="image", requested=order.image)
        if self._runtime is Runtime.DOCKER and _has_registry(order):
            text = f"Docker reads no credentials from the secret file {REGISTRY}; log in as {user.name} on the node"
            raise UnsupportedResource(text, slot="image", requested=str(order.image))
        for grant in order.secrets:
            if grant.value is None:
                raise _missing_secret(grant)
        if not self._is_sandboxed(order, user=user) or order.working_directory is None:
            return
        start, own = order.working_directory, self._own(order, user=user, kernel=kernel, session=session)
        if not is_visible(start, rules=self._rules, user=user, own=own, hidden=self._hidden()):
            text = f"working_directory: {start[:200]} is not visible in the sandbox; add it to sandbox-mounts"
            raise InvalidRequest(text, field="working_directory")

    def sandbox(
        self,
        order: LaunchOrder,
        *,
        user: JobUser,
        kernel: KernelFolder,
        session: Path,
        environment: Mapping[str, str],
    ) -> tuple[str, Sequence[str]] | None:
        """The sandbox program of a kernel and its arguments; None if it runs without a sandbox.

        Raises:
            Unavailable: the kernel requires a sandbox, and there is none.
        """
        if not self._is_sandboxed(order, user=user):
            return None
        program = find_bubblewrap()
        if program is None:
            raise Unavailable("the sandbox does not work: bubblewrap is no longer installed")
        arguments = sandbox_arguments(
            self._rules,
            user=user,
            own=self._own(order, user=user, kernel=kernel, session=session),
            hidden=self._hidden(),
            device_nodes=device_nodes(order.spec, self._gates(order.spec)),
            environment=environment,
            working_directory=order.working_directory or os.path.realpath(kernel.work),
        )
        return program, arguments

    def split(self, order: LaunchOrder) -> tuple[LaunchOrder, bytes | None]:
        """The order as the job sees it, and the credentials for its image, which only the pull gets.

        Apptainer fetches the image when the job starts, so there they stay a secret file of the job.
        """
        found = [grant for grant in order.secrets if order.image is not None and grant.use.as_file == REGISTRY]
        if not found or found[0].value is None or order.image is None:
            return order, None
        content = credentials_file(found[0].value, order.image)
        rest = tuple(grant for grant in order.secrets if grant is not found[0])
        if self._runtime is Runtime.APPTAINER:
            readable = replace(found[0], value=content.decode(errors="surrogateescape"))
            return replace(order, secrets=(*rest, readable)), None
        return replace(order, secrets=rest), content

    def container(
        self,
        order: LaunchOrder,
        *,
        credentials: bytes | None,
        argv: Sequence[str],
        user: JobUser,
        kernel: KernelFolder,
        session: Path,
        environment: Mapping[str, str],
    ) -> ContainerStart | None:
        """What runs an order in its image; None = it has no image.

        Args:
            order, credentials: see `split`.
        """
        if order.image is None or self._runtime is None:
            return None
        own = self._own(order, user=user, kernel=kernel, session=session)
        gpus = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.startswith(_UUIDS)]
        nodes = device_nodes(order.spec, self._gates(order.spec))
        limits, inherits = self.limits.of_process(order), self._runtime is Runtime.APPTAINER
        asked = Container(
            image=order.image,
            argv=argv,
            name=kernel.kernel_id,
            user=user,
            environment=environment,
            environment_file=self.secrets.of(kernel.path.absolute()) / ENVIRONMENT,
            working_directory=order.working_directory or os.path.realpath(kernel.work),
            folders=own.writable,
            files=own.readable,
            mounts=self._rules.mounts,
            gpus=gpus,
            device_nodes=[node for node in nodes if "nvidia" not in node],
            pids=order.limits.processes or self._rules.processes or None,
            limits=limits,
            registry=self.secrets.of(kernel.path.absolute()) / REGISTRY if _has_registry(order) else None,
        )
        secrets = self.secrets.of(kernel.path.absolute())
        files = [(ENVIRONMENT, environment_file(asked))]
        return ContainerStart(
            argv=command(self._runtime, self._runtime_program, asked, has_cdi=self._has_cdi),
            pull=pull_commands(
                self._runtime,
                self._runtime_program,
                order.image,
                credentials=None if credentials is None else secrets / CREDENTIALS,
                insecure=self._rules.insecure_registries,
            ),
            files=files if credentials is None else [*files, (CREDENTIALS, credentials)],
            limits=limits if inherits else [one for one in limits if one[0] == resource.RLIMIT_CORE],
            is_daemons=self._runtime is Runtime.DOCKER,
        )

    def remove_container(self, kernel: KernelFolder, *, user: JobUser) -> None:
        """Remove the container of an ended kernel whose command was killed. Blocks."""
        if self._runtime is not None:
            remove(self._runtime, self._runtime_program, kernel.kernel_id, user)

    def clean(self, kernel: KernelFolder) -> None:
        """Remove an ended kernel's cgroups and secret files. Blocks."""
        self.limits.groups.remove(kernel.kernel_id)
        self.secrets.remove(kernel.path.absolute())

    def _hidden(self) -> list[Path]:
        """Resolved paths: a file hidden under one name must not stay visible under another."""
        return [Path(os.path.realpath(path)) for path in (*self._rules.hidden, self._folder) if path.exists()]

    def _is_sandboxed(self, order: LaunchOrder, *, user: JobUser) -> bool:
        """Whether the order runs in the sandbox. Raises Unavailable if it must but the sandbox does not work."""
        if not self.is_wanted(order):
            return False
        fault = self._fault_for(user)
        if fault and (order.sandbox is not None or self._rules.sandbox is SandboxMode.REQUIRED):
            raise Unavailable(f"the sandbox does not work: {fault}")
        return not fault

    def _fault_for(self, user: JobUser) -> str | None:
        """From the cache only, because it is called in the event loop."""
        return self._fault or self._faults.get(user, "it has not been tried")

    def _try(self, user: JobUser) -> str | None:
        self._faults[user] = sandbox_fault(user)
        return self._faults[user]

    def _own(self, order: LaunchOrder, *, user: JobUser, kernel: KernelFolder, session: Path) -> OwnFolders:
        readable = [kernel.resource]
        if any(grant.use.as_file is not None for grant in order.secrets):
            readable.append(self.secrets.of(kernel.path))
        writable = [kernel.work, session / "checkpoint", session / "result"]
        packages = packages_of(order, user=user, folder=self._folder)
        if packages is not None:
            writable.append(packages)
        return OwnFolders(writable=_real(writable), readable=_real(readable))


def _has_registry(order: LaunchOrder) -> bool:
    """Whether credentials for the image come with the order."""
    return order.image is not None and any(grant.use.as_file == REGISTRY for grant in order.secrets)


def _missing_secret(grant: SecretGrant) -> AliquotError:
    name = grant.use.name
    if grant.why_not is not None:
        return Unavailable(f"the secret {name} cannot be read: {grant.why_not}")
    how = f"store it again: `aliquot secret set {name}`, or the dashboard"
    text = f"the secret {name} of {grant.owner} was deleted; {how}"
    return NotFound(text, kind="secret", id=name)


def _real(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(path)) for path in paths)
