"""An agent's confinement: what was found of its host, and what follows for each order."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from aliquot.execution.agent.cgroups import Groups
from aliquot.execution.agent.confinement.device_nodes import device_nodes
from aliquot.execution.agent.confinement.limit_groups import LimitGroups, find_limit_groups
from aliquot.execution.agent.confinement.limits import Limits
from aliquot.execution.agent.confinement.rules import ConfinementRules, SandboxMode
from aliquot.execution.agent.confinement.sandbox import OwnFolders, is_visible, sandbox_arguments
from aliquot.execution.agent.confinement.sandbox_probe import find_bubblewrap, why_no_sandbox
from aliquot.execution.agent.confinement.secret_folders import SecretFolders
from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.agents import Capabilities
from aliquot_schema.confinement import SandboxProfile
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.errors import AliquotError, InvalidRequest, NotFound, Unavailable
from aliquot_schema.launching import LaunchOrder
from aliquot_schema.secrets import SecretGrant

Gates = Callable[[ResourceSpec], Sequence[DeviceGate]]


class AgentConfinement:
    """What is the same for every kernel of an agent."""

    def __init__(self, rules: ConfinementRules, *, folder: Path, limit_memory: bool, gates: Gates) -> None:
        self._rules = rules
        self._folder = Path(os.path.realpath(folder))
        self._limit_memory = limit_memory
        self._gates = gates
        self._why_not = "it was not looked for"
        self._tried: dict[JobUser, str | None] = {}
        """Why an account cannot be put into the sandbox, as it was found; None where it can."""
        self.limits = Limits(rules=rules, groups=LimitGroups(), limit_memory=limit_memory)
        self.secrets = SecretFolders(folder)

    def look_around(self, groups: Groups | None, *, user: JobUser) -> None:
        """Find out what this host offers, by trying, for the account that jobs run as unless told otherwise. Blocks."""
        found = find_limit_groups(groups, folder=self._folder)
        self.limits = Limits(rules=self._rules, groups=found, limit_memory=self._limit_memory)
        self.secrets.open()
        is_off = self._rules.sandbox is SandboxMode.OFF
        self._why_not = "the setting sandbox is off" if is_off else self._try(user) or ""

    def told_in(self, capabilities: Capabilities) -> Capabilities:
        """What was found, in the words of the protocol."""
        return replace(
            capabilities,
            enforced=self.limits.enforced(),
            sandbox="none" if self._why_not else str(SandboxProfile.STANDARD),
            sandbox_mode=str(self._rules.sandbox),
            sandbox_note=self._why_not,
        )

    def is_wanted(self, order: LaunchOrder) -> bool:
        """Whether an order is to be put into the sandbox, if there is one."""
        return order.sandbox is not None or self._rules.sandbox in (SandboxMode.REQUIRED, SandboxMode.WHEN_POSSIBLE)

    def try_sandbox(self, user: JobUser) -> None:
        """Find out whether an account can be put into it, and remember that. Blocks.

        One that could not is tried again each time: a host that was too busy for it is not so always. So is one that
        could when bubblewrap was there.
        """
        if not self._why_not and (self._tried.get(user, "") is not None or find_bubblewrap() is None):
            self._try(user)

    def check(self, order: LaunchOrder, *, user: JobUser, kernel: KernelFolder, session: Path) -> None:
        """Refuse what cannot be confined as it was asked for.

        Raises:
            InvalidRequest: it asks for more than may be asked for, or begins in a folder that it would not see.
            Unavailable: there is no sandbox for it, or a secret cannot be read. NotFound: a secret is gone.
        """
        self._rules.check(order.limits)
        for grant in order.secrets:
            if grant.value is None:
                raise _not_given(grant)
        if not self._is_put_in(order, user=user) or order.working_directory is None:
            return
        start, own = order.working_directory, self._own(order, kernel=kernel, session=session)
        if not is_visible(start, rules=self._rules, user=user, own=own, hidden=self._hidden()):
            text = (
                f"working_directory: {start[:200]} is not seen in the sandbox; the setting sandbox-mounts adds folders"
            )
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
        """The program that makes a kernel's sandbox, and its arguments; None when it runs without one.

        Raises:
            Unavailable: it must not run without one, and there is none.
        """
        if not self._is_put_in(order, user=user):
            return None
        program = find_bubblewrap()
        if program is None:
            raise Unavailable("there is no sandbox: bubblewrap is not installed any more")
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
        """Remove what is left of a kernel outside of its folder, when all of it has ended. Blocks."""
        self.limits.groups.remove(kernel.kernel_id)
        self.secrets.remove(kernel.path.absolute())

    def _hidden(self) -> list[Path]:
        """Without links: what is covered under one name must not be there under another."""
        return [Path(os.path.realpath(path)) for path in (*self._rules.hidden, self._folder) if path.exists()]

    def _is_put_in(self, order: LaunchOrder, *, user: JobUser) -> bool:
        """Raises Unavailable where it has to be, and cannot."""
        if not self.is_wanted(order):
            return False
        why_not = self._why_not_for(user)
        if why_not and (order.sandbox is not None or self._rules.sandbox is SandboxMode.REQUIRED):
            raise Unavailable(f"there is no sandbox: {why_not}")
        return not why_not

    def _why_not_for(self, user: JobUser) -> str | None:
        """Looks nothing up: it is asked in the event loop."""
        return self._why_not or self._tried.get(user, "it was not tried")

    def _try(self, user: JobUser) -> str | None:
        self._tried[user] = why_no_sandbox(user)
        return self._tried[user]

    def _own(self, order: LaunchOrder, *, kernel: KernelFolder, session: Path) -> OwnFolders:
        readable = [kernel.resource]
        if any(grant.use.as_file is not None for grant in order.secrets):
            readable.append(self.secrets.of(kernel.path))
        writable = (kernel.work, session / "checkpoint", session / "result")
        return OwnFolders(writable=_real(writable), readable=_real(readable))


def _not_given(grant: SecretGrant) -> AliquotError:
    name = grant.use.name
    if grant.why_not is not None:
        return Unavailable(f"the secret {name} cannot be read: {grant.why_not}")
    text = f"{grant.owner} has no secret {name} any more; `aliquot secret set {name}` stores one"
    return NotFound(text, kind="secret", id=name)


def _real(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(path)) for path in paths)
