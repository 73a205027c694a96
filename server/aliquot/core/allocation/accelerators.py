"""Giving an amount of one accelerator slot: `<kind>.shares` by the fraction, everything else in whole units."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Final

from aliquot.core.allocation import plain, refusals
from aliquot.core.allocation.affinity import Group, pick
from aliquot.core.allocation.layout import SlotLayout
from aliquot.core.allocation.models import is_of_model
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import AllocationOptions, NumaPolicy, Strategy
from aliquot.core.allocation.portions import (
    Choose,
    Split,
    equal_parts,
    roomiest,
    split_by_room,
    split_equally,
    split_evenly,
    tightest,
    unevenness,
)
from aliquot_schema.errors import AllocationRefused
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import AMOUNT_MAX, MILLI, scale_of

NEVER: Final = AMOUNT_MAX
"""The least part of a device that has too little memory for any."""


def give(
    slot: SlotName,
    *,
    amount: int,
    layout: SlotLayout,
    used: Occupancy,
    options: AllocationOptions,
    liked: DeviceId | None = None,
) -> dict[DeviceId, int]:
    """Choose devices and amounts; the amounts add up to `amount`. With a device that is liked, no other is given.

    One device that can hold the amount takes all of it: with `evenly` the one with least room, the last among
    equals; with `fill` the one with most room, the first among equals. Whole devices are idle ones; among equals they
    come from the smallest island of linked devices, or NUMA node, that has enough, so that large groups stay
    together; then the same order decides. A split follows `portions`. A grant never has both slices and whole devices:
    slices are tried first when the memory that is needed is known, and last when it is not.

    Raises:
        NotMultipleOfQuantum, InsufficientResource, FractionalResourceFragmented.
    """
    is_share = _is_fractional(slot)
    plainly = plain.accelerators(layout, amount=amount, used=used, options=options, is_share=is_share, liked=liked)
    if plainly is not None:
        return plainly
    fitting = layout.on_step(amount)
    if layout.ids and not fitting:
        raise refusals.off_quantum(slot, requested=amount, quanta=layout.quanta)
    if options.models and fitting:
        fitting = [index for index in fitting if is_of_model(layout.models[index], options.models)]
        if not fitting:
            raise refusals.other_models(slot, requested=amount, models=options.models)
    free = layout.free(used)
    if liked is not None:
        free = [room if device_id == liked else 0 for device_id, room in zip(layout.ids, free, strict=True)]
    refusal: AllocationRefused | None = None
    groups = (layout.slices, layout.wholes) if options.gpu_memory_bytes else (layout.wholes, layout.slices)
    for group in groups:
        members = group if len(fitting) == len(layout.ids) else [index for index in group if index in fitting]
        if members:
            offer = _offer(slot, layout=layout, members=members, free=free, options=options)
            outcome = _split(slot, amount=amount, offer=offer, options=options)
            if isinstance(outcome, dict):
                return {offer.ids[index]: outcome[index] * offer.step for index in sorted(outcome)}
            refusal = outcome
    raise refusal or refusals.insufficient(slot, requested=amount, available=0)


@dataclass(frozen=True, slots=True)
class _Offer:
    """What some devices can give of a slot now. Columns of equal length; amounts in steps of `step` base units."""

    ids: Sequence[DeviceId]
    room: Sequence[int]
    least: Sequence[int] | None
    """The smallest part of each device that has the memory asked for; None = no memory was asked for."""
    largest: int
    """The capacity of the largest device that can have the memory asked for; 0 = there is none."""
    step: int
    nodes: Sequence[Group]
    islands: Sequence[Group]
    numa: NumaPolicy

    def choose(self, liked: Sequence[int], count: int) -> Sequence[int]:
        return pick(liked, count=count, nodes=self.nodes, islands=self.islands, policy=self.numa)


def _offer(
    slot: SlotName,
    *,
    layout: SlotLayout,
    members: Sequence[int],
    free: Sequence[int],
    options: AllocationOptions,
) -> _Offer:
    step = lcm(*[layout.quanta[index] for index in members])
    capacity = [layout.budgets[index] // layout.costs[index] // step for index in members]
    least = None
    if options.gpu_memory_bytes:
        memory = [layout.memory_bytes[index] for index in members]
        least = _least(capacity, memory=memory, asked=options.gpu_memory_bytes, fractional=_is_fractional(slot))
        capacity = [held if part < NEVER else 0 for held, part in zip(capacity, least, strict=True)]
    return _Offer(
        ids=[layout.ids[index] for index in members],
        room=[free[index] // step for index in members],
        least=least,
        largest=max(capacity),
        step=step,
        nodes=[layout.nodes[index] for index in members],
        islands=[layout.islands[index] for index in members],
        numa=options.numa,
    )


def _least(capacity: Sequence[int], *, memory: Sequence[int], asked: int, fractional: bool) -> list[int]:
    """Steps of each device that have the memory asked for: a part of a device has that part of its memory."""
    return [
        NEVER if total < asked else -(-asked * steps // total) if fractional else 0
        for steps, total in zip(capacity, memory, strict=True)
    ]


def _is_fractional(slot: SlotName) -> bool:
    return scale_of(slot) == MILLI


def _split(slot: SlotName, *, amount: int, offer: _Offer, options: AllocationOptions) -> Split | AllocationRefused:
    wanted = amount // offer.step
    least = offer.least or [0] * len(offer.room)
    among = [index for index in range(len(least)) if least[index] <= wanted]
    if not among:
        return refusals.too_little_memory(slot, requested=amount, memory_bytes=options.gpu_memory_bytes or 0)
    rank = tightest if options.strategy is Strategy.EVENLY else roomiest
    ranked = rank(offer.room, amount=wanted, among=among)
    if ranked:
        return {ranked[0] if _is_fractional(slot) else offer.choose(ranked, 1)[0]: wanted}
    free = sum(offer.room[index] for index in among)
    if free < wanted:
        return refusals.insufficient(slot, requested=amount, available=free * offer.step)
    equal = _is_fractional(slot) and not options.allow_fragmentation
    if equal and wanted <= offer.largest:
        largest = max(offer.room[index] for index in among) * offer.step
        return refusals.fragmented(slot, requested=amount, largest=largest, equal=False)
    splits = _splits(wanted, offer=offer, least=least, strategy=options.strategy, equal=equal)
    if splits:
        return min(splits, key=unevenness) if options.strategy is Strategy.EVENLY else splits[0]
    largest = max(offer.room) * offer.step
    if offer.least is None:
        return refusals.fragmented(slot, requested=amount, largest=largest, equal=True)
    return refusals.unsplittable(slot, requested=amount, largest=largest)


def _splits(wanted: int, *, offer: _Offer, least: Sequence[int], strategy: Strategy, equal: bool) -> list[Split]:
    """A split for each size of the smallest part that some device needs to have the memory asked for.

    All parts of a split are at least that large, so that on an agent with cards of different memory a split is
    refused that would give a larger card a smaller part than its smaller neighbour.
    """
    splits = []
    for smallest in sorted({part for part in least if part < NEVER}):
        room = [steps if part <= smallest <= steps else 0 for steps, part in zip(offer.room, least, strict=True)]
        split = _split_room(room, amount=wanted, least=smallest, strategy=strategy, equal=equal, choose=offer.choose)
        if split is not None:
            splits.append(split)
    return splits


def _split_room(
    room: Sequence[int],
    *,
    amount: int,
    least: int,
    strategy: Strategy,
    equal: bool,
    choose: Choose,
) -> Split | None:
    if strategy is Strategy.FILL:
        if equal and equal_parts(room, amount=amount, least=least) is None:
            return None
        return split_by_room(room, amount=amount, least=least, choose=choose)
    if equal:
        return split_equally(room, amount=amount, least=least, choose=choose)
    return split_evenly(room, amount=amount, least=least, choose=choose)
