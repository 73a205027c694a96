"""Isolation: applies limits, sandbox, device files and secrets to each order, as far as the host supports them."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from aliquot.execution.agent.cgroups import Groups
from aliquot.execution.agent.isolation.limits import LimitGroups, Limits, find_limit_groups
from aliquot.execution.agent.isolation.sandbox import (
    OwnFolders,
    find_bubblewrap,
    is_visible,
    sandbox_arguments,
    sandbox_fault,
)
from aliquot.execution.agent.isolation.secrets import SecretFolders
from aliquot.execution.agent.isolation.settings import ConfinementRules, SandboxMode
from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.cluster.agents import Capabilities
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.errors import AliquotError, InvalidRequest, NotFound, Unavailable
from aliquot_schema.identity.secrets import SecretGrant
from aliquot_schema.resources.confinement import SandboxProfile
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.slots import is_accelerator

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
        self.limits = Limits(rules=rules, groups=LimitGroups(), limit_memory=limit_memory)
        self.secrets = SecretFolders(folder)

    def inspect_host(self, groups: Groups | None, *, user: JobUser) -> None:
        """Detect the host's limits, and try the sandbox for the default job account. Blocks."""
        found = find_limit_groups(groups, folder=self._folder)
        self.limits = Limits(rules=self._rules, groups=found, limit_memory=self._limit_memory)
        self.secrets.open()
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
        )

    def is_wanted(self, order: LaunchOrder) -> bool:
        """Whether an order runs in the sandbox if there is one."""
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
        self._rules.check(order.limits)
        for grant in order.secrets:
            if grant.value is None:
                raise _missing_secret(grant)
        if not self._is_sandboxed(order, user=user) or order.working_directory is None:
            return
        start, own = order.working_directory, self._own(order, kernel=kernel, session=session)
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
            own=self._own(order, kernel=kernel, session=session),
            hidden=self._hidden(),
            device_nodes=device_nodes(order.spec, self._gates(order.spec)),
            environment=environment,
            working_directory=order.working_directory or os.path.realpath(kernel.work),
        )
        return program, arguments

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

    def _own(self, order: LaunchOrder, *, kernel: KernelFolder, session: Path) -> OwnFolders:
        readable = [kernel.resource]
        if any(grant.use.as_file is not None for grant in order.secrets):
            readable.append(self.secrets.of(kernel.path))
        writable = (kernel.work, session / "checkpoint", session / "result")
        return OwnFolders(writable=_real(writable), readable=_real(readable))


def _missing_secret(grant: SecretGrant) -> AliquotError:
    name = grant.use.name
    if grant.why_not is not None:
        return Unavailable(f"the secret {name} cannot be read: {grant.why_not}")
    text = f"the secret {name} of {grant.owner} was deleted; `aliquot secret set {name}` stores it again"
    return NotFound(text, kind="secret", id=name)


def _real(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(path)) for path in paths)
