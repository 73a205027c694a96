"""Feasibility: whether agents could run a request if all their devices were free."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.core.allocation import refusals as refusal_texts
from aliquot.core.allocation.device_map import Refusal, allocate
from aliquot.core.allocation.layout import DeviceLayout, SlotLayout
from aliquot.core.allocation.occupancy import added, occupancy_of
from aliquot.core.allocation.options import AllocationOptions, is_of_model
from aliquot.core.model.agent_index import are_same, has_labels, may_be_on
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Kind, kind_of
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request, Snapshot, accelerators_first
from aliquot.core.placement.switches import by_switch
from aliquot_schema.errors import (
    AliquotError,
    AllocationRefused,
    ImpossibleRequest,
    InvalidRequest,
    NotMultipleOfQuantum,
    UnsupportedResource,
)
from aliquot_schema.ids import AgentId, DeviceId, NaturalKey, NodeId, SlotName, natural_key
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.confinement import IMAGES_LABEL, SANDBOX_LABEL, labels_text
from aliquot_schema.resources.devices import Device, DeviceHealth, ResourceSpec
from aliquot_schema.resources.slots import MILLI, format_amount, is_accelerator, scale_of
from aliquot_schema.sessions import SessionSpec, Topology

NAMED_MAX: Final = 8
"""Agents, and devices, named as evidence."""
KINDS_MAX: Final = 10_000
"""Kinds of rows with a cached result."""


def impossible(spec: SessionSpec, agents: Iterable[AgentRow], options: AllocationOptions) -> AliquotError | None:
    """Why the registered agents could not run a session even if all were empty; None if they could.

    Lost, drained and suspect agents count: they may come back.

    Args:
        agents: in the order of their names, see `natural_key`.
    """
    request = spec.slots.finite
    options = replace(options, gpu_memory_bytes=spec.gpu_memory_bytes, models=spec.models)
    agents = [agent for agent in agents if has_labels(agent, spec.labels.items())]
    staying = [agent for agent in agents if spec.preemptible or _stays(agent, limit_ms=spec.time_limit_ms)]
    if len(staying) < len(agents):
        without = impossible(spec, staying, options) if staying else _only_temporary(agents)
        if without is None or impossible(replace(spec, preemptible=True), agents, options) is not None:
            return without
        return _only_temporary([agent for agent in agents if agent not in staying])
    wanted_kernels = spec.cluster_size if spec.cluster_size_min is None else spec.cluster_size_min
    kernels_max = kernels_when_empty(agents, request, options, most=wanted_kernels, repaired=True)
    if kernels_max >= wanted_kernels:
        return _apart_only(agents, spec, options) if spec.topology is Topology.REQUIRE else None
    if not agents:
        return _without_labels(spec)
    if not kernels_max:
        refusals = [refusal_when_empty(agent.layout, request, options) for agent in agents]
        return _best_refusal([refusal for refusal in refusals if refusal is not None], request, agents, options=options)
    return ImpossibleRequest(
        f"cluster_size: all agents together hold {_kernels(kernels_max)} when empty, and {wanted_kernels} "
        "were requested; ask for fewer or smaller ones",
        slot="cluster_size",
        requested=str(wanted_kernels),
        limit=str(kernels_max),
    )


def _without_labels(spec: SessionSpec) -> ImpossibleRequest:
    wanted = [f"{name}={value}" for name, value in sorted(spec.labels.items())]
    field = "labels"
    if spec.labels.keys() <= {IMAGES_LABEL, SANDBOX_LABEL}:
        field = "image" if IMAGES_LABEL in spec.labels else "sandbox"
    needs = "; a node needs Podman, Docker or Apptainer for that" if IMAGES_LABEL in spec.labels else ""
    text = f"{field}: no registered agent {labels_text(wanted)}{needs}"
    return ImpossibleRequest(text, slot=field, requested=", ".join(wanted), limit="")


def _stays(agent: AgentRow, *, limit_ms: int | None) -> bool:
    """Whether an agent may ever run a session that is not preemptible."""
    return limit_ms is not None if agent.until_us is not None else not agent.is_spot


def _only_temporary(agents: Sequence[AgentRow]) -> ImpossibleRequest:
    """The error for a session that only temporary agents could run, and that may not run there."""
    named = _names([agent.id for agent in agents])
    return ImpossibleRequest(
        f"preemptible: only {named} can run this, on spot nodes or nodes that leave at a known time; submit it as "
        "preemptible, or with a time limit for nodes that leave at a known time",
        slot="preemptible",
        requested="false",
        limit="true",
    )


def _apart_only(agents: Iterable[AgentRow], spec: SessionSpec, options: AllocationOptions) -> ImpossibleRequest | None:
    """The error for a gang that fits on no single switch, as it requires."""
    most = _kernels_on_a_switch(agents, spec.slots.finite, options, most=spec.cluster_size, repaired=True)
    if most >= spec.cluster_size:
        return None
    return ImpossibleRequest(
        f"topology: require keeps all {spec.cluster_size} kernels on one switch, and no switch holds more than "
        f"{_kernels(most)} when empty; ask for fewer or smaller ones, or use topology: prefer",
        slot="topology",
        requested=str(spec.cluster_size),
        limit=str(most),
    )


def _kernels(count: int) -> str:
    return f"{count} such kernel{'' if count == 1 else 's'}"


class FeasibilityCache:
    """Results for the agents of earlier passes; cleared when an agent or the allocation options change."""

    def __init__(self) -> None:
        self._agents: tuple[AgentRow, ...] = ()
        self._options: AllocationOptions | None = None
        self._found: dict[Kind, Verdict | None] = {}

    def found(self, agents: tuple[AgentRow, ...], options: AllocationOptions) -> dict[Kind, Verdict | None]:
        """The cached results, by kind of row; callers add to it."""
        if self._options != options or not are_same(self._agents, agents) or len(self._found) > KINDS_MAX:
            self._agents, self._options, self._found = agents, options, {}
        return self._found


def feasible_agents(
    snapshot: Snapshot, policy: Policy, *, cache: FeasibilityCache | None = None
) -> Callable[[PendingRow], Verdict | None]:
    """A check of rows: None if the open agents could run the row when empty, else the verdict. Cached by kind."""
    found = (cache or FeasibilityCache()).found(snapshot.agents, policy.allocation)
    ordered: list[AgentRow] = []

    def could_run(row: PendingRow) -> Verdict | None:
        kind = kind_of(row)
        if kind not in found:
            if not ordered:
                ordered.extend(sorted(snapshot.agents, key=_by_name))
            found[kind] = _no_agent(row, ordered, policy.allocation)
        return found[kind]

    return could_run


def kernels_when_empty(
    agents: Iterable[AgentRow], request: Request, options: AllocationOptions, *, most: int, repaired: bool
) -> int:
    """How many such kernels fit on the agents together when they are empty; counting stops at `most`.

    Args:
        agents: in a fixed order; agents of one node may share devices.
        repaired: whether devices that are unhealthy now count as healthy.
    """
    found = 0
    used: dict[NodeId, Mapping[DeviceId, int]] = {}
    for agent in agents:
        if found == most:
            break
        held = used.get(agent.node_id, {})
        slots = agent.layout.repaired if repaired else agent.layout.slots
        while found < most and (spec := _when_held(agent.layout, slots, request, options, held)) is not None:
            held = added(held, occupancy_of((spec,), agent.layout.devices.values()))
            found += 1
        used[agent.node_id] = held
    return found


def _kernels_on_a_switch(
    agents: Iterable[AgentRow], request: Request, options: AllocationOptions, *, most: int, repaired: bool
) -> int:
    """As `kernels_when_empty`, on the agents of the switch that holds most of them."""
    switches = by_switch(agents).values()
    counts = (kernels_when_empty(there, request, options, most=most, repaired=repaired) for there in switches)
    return max(counts, default=0)


def _no_agent(row: PendingRow, agents: Sequence[AgentRow], options: AllocationOptions) -> Verdict | None:
    options = replace(options, gpu_memory_bytes=row.gpu_memory_bytes, models=row.where.models)
    fit = _kernels_on_a_switch if row.where.topology is Topology.REQUIRE else kernels_when_empty
    # Mostly the first agents hold it, and the others need not be looked at.
    may_run = (agent for agent in agents if agent.is_open and may_be_on(row, agent))
    if fit(may_run, row.request, options, most=row.cluster_size, repaired=False) >= row.cluster_size:
        return None
    allowed = [agent for agent in agents if may_be_on(row, agent)]
    is_open = [agent for agent in allowed if agent.is_open]
    leaving = [
        agent
        for agent in agents
        if _is_barred(row, agent) and not refusal_when_empty(agent.layout, row.request, options)
    ]
    if fit([*is_open, *leaving], row.request, options, most=row.cluster_size, repaired=False) >= row.cluster_size:
        times = [agent.until_us for agent in leaving if agent.until_us is not None]
        named = tuple(agent.id for agent in leaving[:NAMED_MAX])
        evidence = Evidence(agents=named, is_temporary=True, leaves_us=max(times, default=None))
        return Verdict(reason=Reason.NO_AGENT, evidence=evidence)
    missing_slot = next((slot for slot, amount in row.request if amount and not _holders(slot, allowed)), None)
    if missing_slot is not None:
        evidence = _kept_away(row, agents, missing_slot) or Evidence(
            slot=missing_slot,
            requested=format_amount(missing_slot, dict(row.request)[missing_slot]),
            available=format_amount(missing_slot, 0),
            devices=tuple(device.id for device in _without_capacity(missing_slot, allowed))[:NAMED_MAX],
        )
        return Verdict(reason=Reason.NO_AGENT, evidence=evidence)
    missing = [agent for agent in allowed if not agent.is_open or _broken(agent)]
    could = [agent for agent in missing if not refusal_when_empty(agent.layout, row.request, options)]
    broken = [device_id for agent in could if agent.is_open for device_id in _broken(agent)]
    evidence = Evidence(
        agents=tuple(agent.id for agent in could[:NAMED_MAX]), devices=tuple(dict.fromkeys(broken))[:NAMED_MAX]
    )
    if row.cluster_size > 1:
        most = fit(is_open, row.request, options, most=row.cluster_size, repaired=False)
        is_one_switch = row.where.topology is Topology.REQUIRE
        evidence = replace(evidence, kernels_max=most or None, is_one_switch=is_one_switch and most > 0)
    if not could and evidence.kernels_max is None:
        evidence = _too_small(row, allowed)
    return Verdict(reason=Reason.NO_AGENT, evidence=evidence)


def _kept_away(row: PendingRow, agents: Sequence[AgentRow], slot: SlotName) -> Evidence | None:
    """Evidence that agents have a slot, but not the pool or the labels that a row requires; None if no agent has it."""
    holders = [agent for agent in agents if _capacity(agent.layout, slot)]
    in_pool = [agent for agent in holders if agent.pool == row.where.pool]
    if not in_pool:
        return Evidence(slot=slot, pool=row.where.pool) if holders else None
    if not any(has_labels(agent, row.where.labels) for agent in in_pool):
        lacking = [pair for pair in row.where.labels if not any(has_labels(agent, [pair]) for agent in in_pool)]
        return Evidence(slot=slot, labels=tuple(f"{name}={value}" for name, value in lacking or row.where.labels))
    return Evidence(agents=tuple(agent.id for agent in in_pool if has_labels(agent, row.where.labels))[:NAMED_MAX])


def _too_small(row: PendingRow, agents: Sequence[AgentRow]) -> Evidence:
    """Evidence for the first slot of which a kernel needs more than any agent has; none if each is there."""
    for slot, amount in accelerators_first(row.request):
        largest = max((_capacity(agent.layout, slot) for agent in agents), default=0)
        if amount > largest:
            requested, most = format_amount(slot, amount), format_amount(slot, largest)
            return Evidence(slot=slot, requested=requested, largest=most)
    return Evidence()


def _is_barred(row: PendingRow, agent: AgentRow) -> bool:
    """Whether an open agent is left out because its node may leave too early for the session."""
    if not agent.is_open or agent.id not in row.excluded_agents or not (agent.is_spot or agent.until_us is not None):
        return False
    return may_be_on(replace(row, excluded_agents=()), agent)


def _by_name(agent: AgentRow) -> NaturalKey:
    return natural_key(agent.id)


def _broken(agent: AgentRow) -> list[DeviceId]:
    devices = agent.layout.devices.values()
    return [device.id for device in devices if device.health is DeviceHealth.UNHEALTHY]


def _when_held(
    layout: DeviceLayout,
    slots: Mapping[SlotName, SlotLayout],
    request: Request,
    options: AllocationOptions,
    used: Mapping[DeviceId, int],
) -> ResourceSpec | None:
    try:
        return allocate(dict(request), slots=slots, used=used, unique=layout.unique, options=options)
    except (AllocationRefused, InvalidRequest):
        return None


def refusal_when_empty(layout: DeviceLayout, request: Request, options: AllocationOptions) -> Refusal | None:
    """Why an idle agent with all devices healthy refuses a request; None if it does not."""
    try:
        allocate(dict(request), slots=layout.repaired, used={}, unique=layout.unique, options=options)
    except (AllocationRefused, InvalidRequest) as refusal:
        return refusal
    return None


def _best_refusal(
    refusals: list[Refusal], request: Request, agents: list[AgentRow], *, options: AllocationOptions
) -> AliquotError:
    """The most helpful refusal: a wrong step, slots that exclude each other, a slot that is too small on every agent
    (accelerators before others: amounts of these may come with them), too much memory, or the last refusal of an agent
    that has all slots."""
    for refusal in refusals:
        if isinstance(refusal, NotMultipleOfQuantum):
            return refusal
    clash = _clash(request, agents)
    if clash is not None:
        return clash
    for slot, amount in accelerators_first(request):
        largest = max((_capacity(agent.layout, slot) for agent in agents), default=0)
        if amount > largest:
            return _too_large(slot, amount, largest) if largest else _missing(slot, amount, agents)
    special = _apart(request, agents) or _too_much_memory(request, agents, options)
    if special is not None:
        return special
    last = next((one for one in reversed(refusals) if not isinstance(one, UnsupportedResource)), refusals[-1])
    slot = SlotName(last.slot) if isinstance(last, AllocationRefused) else request[0][0]
    requested = format_amount(slot, dict(request).get(slot, 0))
    return ImpossibleRequest(
        f"no agent could run this even if it were empty: {last.message}", slot=slot, requested=requested, limit=""
    )


def _clash(request: Request, agents: list[AgentRow]) -> ImpossibleRequest | None:
    """The error for two slots of the same devices, like `cuda.device` and `cuda.shares`; None without such."""
    kinds: dict[str, SlotName] = {}
    for slot, amount in request:
        first = kinds.setdefault(slot.partition(".")[0], slot) if amount and is_accelerator(slot) else slot
        if first != slot and _holders(first, agents) and _holders(slot, agents):
            message = refusal_texts.same_kind(first, slot, requested=amount).message
            return ImpossibleRequest(message, slot=slot, requested=format_amount(slot, amount), limit="")
    return None


def _apart(request: Request, agents: list[AgentRow]) -> ImpossibleRequest | None:
    """The error for slots that no single agent has together, with the agents of each; None if one has all."""
    asked = [slot for slot, amount in request if amount]
    holders = {slot: _holders(slot, agents) for slot in asked}
    if any(all(agent in holders[slot] for slot in asked) for agent in (one.id for one in agents)):
        return None
    rare = [slot for slot in asked if len(holders[slot]) < len(agents)]
    where = "; ".join(f"{slot} is on {_names(holders[slot])}" for slot in rare)
    slot, amount = next((slot, amount) for slot, amount in reversed(request) if slot in rare)
    return ImpossibleRequest(
        f"no agent has {' and '.join(rare)} together: {where}. Submit a session of its own for each",
        slot=slot,
        requested=format_amount(slot, amount),
        limit="0",
    )


def _too_much_memory(request: Request, agents: list[AgentRow], options: AllocationOptions) -> ImpossibleRequest | None:
    """The error for more memory than any allowed GPU, or the requested share of one, has; None if one has enough."""
    for slot, amount in request if options.gpu_memory_bytes else ():
        if not is_accelerator(slot):
            continue
        largest = part = 0
        for columns in (agent.layout.repaired[slot] for agent in agents if slot in agent.layout.repaired):
            for memory, budget, cost, model in zip(
                columns.memory_bytes, columns.budgets, columns.costs, columns.models, strict=True
            ):
                if is_of_model(model, options.models):
                    largest = max(largest, memory)
                    part = max(part, memory * min(amount * cost, budget) // budget)
        is_share = scale_of(slot) == MILLI
        limit = part if is_share else largest
        if largest and limit < (asked := options.gpu_memory_bytes or 0):
            has = f"the largest GPU has {_gb(largest)} GB"
            if is_share and part < largest:
                has += f", of which {format_amount(slot, amount)} has {_gb(part)} GB"
            way = "ask for a larger share or less memory" if asked <= largest else f"ask for at most {_gb(limit)}"
            return ImpossibleRequest(
                f"gpu_memory_gb: {_gb(asked)} GB per GPU requested, and {has}; {way}",
                slot="gpu_memory_gb",
                requested=_gb(asked),
                limit=_gb(limit),
            )
    return None


def _gb(size: int) -> str:
    """In units of 10^9 bytes, rounded down to a tenth, so that a limit can be requested as it is printed."""
    whole, tenths = divmod(size // 10**8, 10)
    return f"{whole}.{tenths}" if tenths else str(whole)


def _missing(slot: SlotName, amount: int, agents: list[AgentRow]) -> ImpossibleRequest:
    """The error for a slot that no agent has now: its devices are gone or too small, or they never were here."""
    requested, known = format_amount(slot, amount), _without_capacity(slot, agents)
    small = [device.name for device in known if device.health is DeviceHealth.HEALTHY]
    if small:
        why = f"the devices with it report less than {format_amount(slot, 1)} ({_names(small)})"
    elif known:
        why = f"the last device with it is gone ({_names([device.name for device in known])})"
    else:
        why = "only agents of other pools have had it"
    return ImpossibleRequest(
        f"{slot}: a kernel asks for {requested}, and these agents have 0: {why}. A smaller amount does not help",
        slot=slot,
        requested=requested,
        limit=format_amount(slot, 0),
    )


def _without_capacity(slot: SlotName, agents: Iterable[AgentRow]) -> list[Device]:
    """Devices that offered a slot; called when none offers it any more."""
    return [device for agent in agents for device in agent.layout.devices.values() if slot in device.costs]


def _holders(slot: SlotName, agents: list[AgentRow]) -> list[AgentId]:
    return [agent.id for agent in agents if _capacity(agent.layout, slot)]


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(names[:NAMED_MAX])
    return f"{listed} and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else listed


def _capacity(layout: DeviceLayout, slot: SlotName) -> int:
    """The most that one grant can hold: whole devices or slices, never both."""
    columns = layout.repaired.get(slot)
    if columns is None:
        return 0
    held = [budget // cost for budget, cost in zip(columns.budgets, columns.costs, strict=True)]
    return max(sum(held[index] for index in group) for group in (columns.wholes, columns.slices))


def _too_large(slot: SlotName, amount: int, largest: int) -> ImpossibleRequest:
    requested, limit = format_amount(slot, amount), format_amount(slot, largest)
    return ImpossibleRequest(
        f"{slot}: a kernel asks for {requested}, and the largest agent has {limit}; ask for less, "
        "or for more kernels with cluster_size",
        slot=slot,
        requested=requested,
        limit=limit,
    )
