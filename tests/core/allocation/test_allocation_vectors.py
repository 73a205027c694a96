"""239 recorded sequences of an existing system, judged by the allocation rules.

Each step is judged from the recorded state before it. Granted or refused and the total must agree; `fill` on every
device; `evenly` must not be more uneven, nor as uneven over more devices, where a difference of at most one step of
the slot counts as 0. `$ALIQUOT_VECTORS` names another file of the same form.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aliquot.core.allocation import AllocationOptions, DeviceMap, ShareStrategy
from aliquot_schema.errors import AllocationRefused
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.slots import parse_amount
from allocation_devices import gpu

VECTORS = Path(os.environ.get("ALIQUOT_VECTORS") or Path(__file__).parents[2] / "data" / "alloc_maps.jsonl")
STEP = {"fraction": 10, "discrete": 1}
COST = {"fraction": 1, "discrete": 1000}

SEQUENCES = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]


def test_the_recorded_sequences_are_not_empty() -> None:
    assert sum(len(sequence["steps"]) for sequence in SEQUENCES) > 0


@pytest.mark.parametrize("sequence", SEQUENCES, ids=[str(number) for number in range(len(SEQUENCES))])
def test_an_allocation_agrees_with_the_recorded_sequence(sequence: Mapping[str, Any]) -> None:
    slot = SlotName(sequence["slot"])
    options = AllocationOptions(
        strategy=ShareStrategy(sequence["strategy"]), allow_fragmentation=sequence["allow_fragmentation"]
    )
    state = _empty(sequence, slot=slot)
    granted: dict[int, ResourceSpec] = {}
    for number, step in enumerate(sequence["steps"]):
        if "free" in step:
            state = state.release(granted[step["free"]])
            continue
        request = {slot: _amount(slot, step["allocate"])}
        if "error" in step:
            with pytest.raises(AllocationRefused):
                state.allocate(request, options=options)
            continue
        recorded = _amounts(slot, step["devices"])
        ours = state.allocate(request, options=options)[slot]
        assert sum(ours.values()) == sum(recorded.values()) == request[slot], step
        if options.strategy is ShareStrategy.FILL:
            assert ours == recorded, step
        else:
            unit = STEP[sequence["kind"]]
            assert _unevenness(ours, step=unit) <= _unevenness(recorded, step=unit), step
        granted[number] = {slot: recorded}
        state = state.apply(granted[number])
    cost = COST[sequence["kind"]]
    assert state.used == {name: amount * cost for name, amount in _amounts(slot, sequence["final"]).items()}


def _empty(sequence: Mapping[str, Any], *, slot: SlotName) -> DeviceMap:
    cost = COST[sequence["kind"]]
    return DeviceMap.of(
        gpu(int(name.removeprefix("cuda")), budget=_amount(slot, text) * cost, costs={slot: cost})
        for name, text in sequence["capacity"].items()
    )


def _amount(slot: SlotName, text: str) -> int:
    amount = parse_amount(slot, text)
    assert isinstance(amount, int)
    return amount


def _amounts(slot: SlotName, texts: Mapping[str, str]) -> dict[DeviceId, int]:
    amounts = {DeviceId(name): _amount(slot, text) for name, text in texts.items()}
    return {name: amount for name, amount in amounts.items() if amount}


def _unevenness(amounts: Mapping[DeviceId, int], *, step: int) -> tuple[int, int]:
    spread = max(amounts.values()) - min(amounts.values())
    return (0 if spread <= step else spread), len(amounts)
