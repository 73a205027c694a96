"""The tables of `aliquot.toml` that say how a node is divided among agents."""

from typing import Annotated, Any, Final, Self

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from aliquot.core.allocation.claims import CPU, Claim
from aliquot.core.allocation.selection import Selection
from aliquot.execution.devices.checked import Size, Table
from aliquot_schema.agents import AllocationMode
from aliquot_schema.ids import AgentId

_NEW_FORM: Final = 'name the devices themselves, as in [agents.resource.allocations.devices] cuda = ["cuda0", "cuda1"]'


class ResourceTable(Table):
    """`[resource]`."""

    allocation_mode: Annotated[AllocationMode, Field(strict=False, alias="allocation-mode")] = AllocationMode.SHARED


class DevicesTable(Table):
    """`[devices]`: what of the node Aliquot has."""

    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)

    @property
    def selection(self) -> Selection:
        """What the table stands for."""
        return Selection(include=frozenset(self.include), exclude=frozenset(self.exclude))


class AllocationsTable(Table):
    """`[agents.resource.allocations]`, for `allocation-mode = "manual"`."""

    cpu: list[str] = Field(default_factory=list)
    """Numbers of CPUs, as text."""
    mem: Size = Field(default=0, ge=0)
    devices: dict[str, list[str]] = Field(default_factory=dict)
    """Names or ids of devices, by kind."""

    @model_validator(mode="before")
    @classmethod
    def _by_device(cls, values: Any) -> Any:
        """Say of the older form, which gave every agent amounts of slots, how it is written now."""
        for slot, amount in values.items() if isinstance(values, dict) else ():
            if "." in slot:
                raise _old_form(slot, amount)
        return values

    @field_validator("cpu", mode="before")
    @classmethod
    def _by_number(cls, value: Any) -> Any:
        if isinstance(value, list):
            return value
        words = 'cpu = {value} is a count; name the CPUs, as in cpu = ["0", "1", "2", "3"]'
        raise PydanticCustomError("count", words, {"value": repr(value)})

    @field_validator("devices", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        for kind, names in value.items() if isinstance(value, dict) else ():
            for slot, amount in names.items() if isinstance(names, dict) else ():
                raise _old_form(f"{kind}.{slot}", amount)
            if not isinstance(names, list):
                raise _old_form(kind, names)
        return value

    def claim(self, agent_id: AgentId) -> Claim:
        """What the table stands for."""
        named = self.devices | ({CPU: self.cpu} if self.cpu else {})
        return Claim(agent_id=agent_id, devices=named, memory_bytes=self.mem)


class AgentResourceTable(Table):
    """`[agents.resource]`."""

    allocations: AllocationsTable | None = None


class AgentTable(Table):
    """One of `[[agents]]`."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    """Unique in the cluster; also the name of the agent's folder."""
    resource: AgentResourceTable = AgentResourceTable()

    @property
    def claim(self) -> Claim:
        """What it is given by name."""
        return (self.resource.allocations or AllocationsTable()).claim(AgentId(self.id))


class Division(Table):
    """How a node is divided; the tables of the file that speak of it, checked against each other."""

    resource: ResourceTable = ResourceTable()
    agents: list[AgentTable] = Field(default_factory=list)
    devices: DevicesTable = DevicesTable()

    @property
    def mode(self) -> AllocationMode:
        """How the devices are divided."""
        return self.resource.allocation_mode

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [agent.id for agent in self.agents]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        given = [agent.id for agent in self.agents if agent.resource.allocations is not None]
        if twice:
            raise PydanticCustomError("twice", "agents: two are named {name}", {"name": twice[0]})
        if self.mode is not AllocationMode.MANUAL and given:
            words = 'agents: {name} has allocations, which count with [resource] allocation-mode = "manual" alone'
            raise PydanticCustomError("allocations", words, {"name": given[0]})
        if self.mode is not AllocationMode.SHARED and not self.agents:
            words = (
                "resource.allocation-mode: {mode} needs the agents to divide the node among; name them as [[agents]]"
            )
            raise PydanticCustomError("no_agents", words, {"mode": self.mode.value})
        return self


def _old_form(slot: str, amount: object) -> PydanticCustomError:
    words = '"{slot}" = {amount} divides slots, which is the old form: ' + _NEW_FORM
    return PydanticCustomError("old_form", words, {"slot": slot, "amount": repr(amount)})
