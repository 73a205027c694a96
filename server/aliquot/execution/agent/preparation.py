"""Turns an order into what is on disk and what the spawner is asked for. Blocks on the disk."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.cgroups import Groups, find_groups
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.confinement.agent_confinement import AgentConfinement
from aliquot.execution.agent.device_access import can_gate
from aliquot.execution.agent.environment import job_environment
from aliquot.execution.agent.held_kernel import HeldKernel
from aliquot.execution.agent.job_user import JobUser, resolve_user
from aliquot.execution.agent.reach import own_address
from aliquot.execution.agent.start_request import start_request
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.agents import Capabilities
from aliquot_schema.devices import DeviceAccess, ResourceSpec
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import KernelId
from aliquot_schema.launching import LaunchOrder


class Preparation:
    """What is the same for every kernel of an agent."""

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
        self._address = ""
        self._device_environment = device_environment
        self._device_gates = device_gates
        self._can_gate = False
        self.confinement = AgentConfinement(
            config.confinement, folder=config.folder, limit_memory=config.limit_memory, gates=device_gates
        )

    def look_around(self) -> None:
        """Find out what this host offers, and whether there is an account for jobs.

        Raises:
            InvalidRequest, Forbidden: see `resolve_user`.
        """
        self._groups = find_groups(self._config.folder)
        self._can_gate = self._config.gate_devices and can_gate(self._groups)
        self._address = self._config.reach.address or own_address()
        self.confinement.look_around(self._groups, user=self.user_for(None))

    def capabilities(self) -> Capabilities:
        """What was found, in the words of the protocol."""
        found = Capabilities(
            kill="subreaper" if self._groups is None else "cgroup_v2",
            limits="rlimits" if self._config.limit_memory else "none",
            switches_user=os.geteuid() == 0,
            device_access=DeviceAccess.CGROUP if self._gates({}) else DeviceAccess.ENV,
            address=self._address,
            port_first=self._config.reach.port_first,
            port_last=self._config.reach.port_last,
        )
        return self.confinement.told_in(found)

    def group_of(self, kernel_id: KernelId) -> str | None:
        """The cgroup for a kernel."""
        return None if self._groups is None else self._groups.of_kernel(kernel_id)

    def user_for(self, asked: str | None) -> JobUser:
        """The account for an order.

        Raises:
            InvalidRequest, Forbidden: see `resolve_user`.
        """
        return resolve_user(self._config.job_user, asked=asked, uid=os.geteuid(), environment=os.environ)

    def try_sandboxes(self, orders: Sequence[LaunchOrder]) -> None:
        """Try the sandbox for accounts that are new here, which takes a process each, so that `check` is quick."""
        names = {order.user for order in orders if self.confinement.is_wanted(order)}
        for name in names:
            with suppress(AliquotError):  # `check` says so
                self.confinement.try_sandbox(self.user_for(name))

    def check(self, kernel: HeldKernel, order: LaunchOrder) -> None:
        """Refuse what cannot be run as it was ordered.

        Raises:
            AliquotError: see `resolve_user` and `AgentConfinement.check`.
        """
        user, session = self.user_for(order.user), self._folder.sessions / kernel.session_id
        self.confinement.check(order, user=user, kernel=kernel.folder, session=session)

    def write(self, kernel: HeldKernel) -> bool:
        """Write a new kernel's folder durably, but for its entry in the folder above; False when there is one."""
        assert kernel.order is not None
        return kernel.folder.create(
            kernel.order,
            agent_id=self._config.id,
            boot_id=self._config.node.boot_id,
            group=kernel.group,
            user=self.user_for(kernel.order.user),
            drafts=self._folder.drafts,
        )

    def request(self, kernel: HeldKernel, *, pause_at: str | None) -> dict[str, object]:
        """What to ask the spawner for, once the kernel's folder is there."""
        order = kernel.order
        assert order is not None
        user = self.user_for(order.user)
        session: Path = self._folder.session(kernel.session_id, user=user)
        environment = job_environment(
            order,
            user=user,
            devices=self._device_environment(order.spec),
            agent_id=self._config.id,
            work=kernel.folder.work,
            session=session,
            resource_file=kernel.folder.resource,
            secrets=self.confinement.secrets.of(kernel.folder.path),
        )
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
            pause_at=pause_at,
        )

    def _gates(self, spec: ResourceSpec) -> Sequence[DeviceGate]:
        return self._device_gates(spec) if self._can_gate else ()
