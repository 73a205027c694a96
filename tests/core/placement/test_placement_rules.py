"""Each strategy's rule, on clusters with an evident best choice."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.core.placement.cluster_arrays import ClusterArrays, NodeRow
from aliquot.core.placement.least_waste import (
    CPU_PER_DEVICE,
    FIXED,
    STRANDED_WEIGHT,
    SURPLUS_WEIGHT,
    cpu_per_device,
    waste_table,
)
from aliquot.core.placement.scoreboard import PlacementRequest
from aliquot.core.placement.strategies import making
from aliquot.core.placement.strategy import RequestClass, RequestMix
from aliquot_schema.errors import InvalidRequest
from placement_clusters import SIZES, board_of


def asked(milli: int, *, devices: int = 1, cpu: int = 0) -> RequestClass:
    return RequestClass(cpu=cpu, mem=0, devices=devices, milli=milli)


def at(name: str, *free: int, cpu: int = 96_000) -> NodeRow:
    """A node of whole devices with these free amounts."""
    return NodeRow(name=name, cpu=cpu, mem=0, devices=(1000,) * len(free), free_milli=free)


def chosen(strategy: str, rows: list[NodeRow], request: RequestClass, *, mix: RequestMix | None = None) -> str:
    cluster = ClusterArrays(rows)
    choice = board_of(cluster, strategy, mix=mix).best(PlacementRequest(request=request))
    assert choice is not None
    return cluster.nodes[choice.row].name


def test_an_unknown_strategy_is_refused_with_the_valid_names() -> None:
    with pytest.raises(InvalidRequest, match=r"'wurst'.*best_fit.*fgd.*least_waste.*spread") as refusal:
        making("wurst")
    assert refusal.value.field == "placement"


@pytest.mark.parametrize(
    ("strategy", "rows", "request_", "best"),
    [
        ("best_fit", [at("tight", 400, 0), at("wide", 1000, 1000)], asked(300), "tight"),
        ("best_fit", [at("few_cores", 1000, cpu=8000), at("many", 1000)], asked(300, cpu=1000), "few_cores"),
        ("dot_product", [at("small", 1000, 0), at("large", 1000, 1000, 1000, 1000)], asked(1000), "small"),
        ("pack", [at("in_use", 500, 1000), at("idle", 1000)], asked(300), "in_use"),
        ("pack", [at("in_use", 500, 1000), at("idle", 1000)], asked(1000), "in_use"),
        ("pack", [at("idle2", 1000, 1000), at("idle1", 1000)], asked(1000), "idle1"),
        ("spread", [at("in_use", 500, 1000), at("idle", 1000)], asked(300), "idle"),
        ("first_fit", [at("n10", 1000), at("n9", 1000)], asked(300), "n9"),
        ("fgd", [at("n10", 300, 1000), at("n9", 1000, 1000)], asked(300), "n10"),
        ("fgd", [at("n10", 1000), at("n9", 1000)], asked(1000), "n10"),
    ],
)
def test_each_strategy_chooses_the_node_of_its_rule(
    strategy: str, rows: list[NodeRow], request_: RequestClass, best: str
) -> None:
    for order in (rows, rows[::-1]):
        assert chosen(strategy, order, request_) == best


def test_fgd_keeps_devices_that_typical_requests_can_use() -> None:
    """With halves and wholes, a free half is usable; the rest of a half after 0.3 is not."""
    mix = RequestMix.of(Counter({asked(500): 50, asked(1000): 50}))
    rows = [at("half", 500, 1000), at("rest", 300, 1000)]
    assert chosen("fgd", rows, asked(300), mix=mix) == "rest"


@pytest.mark.parametrize(
    ("free", "best"), [((400, 500, 1000), 500), ((400, 600), 600), ((400, 1000), 1000), ((300, 500), 300)]
)
def test_least_waste_takes_the_device_that_is_of_least_use_to_others(free: tuple[int, ...], best: int) -> None:
    """Shares of 0.2 and 0.3: 0.3 of 0.4 would leave an unusable 0.1, so the tightest device is not the best."""
    mix = RequestMix.of(Counter({asked(300): 30, asked(200): 30, asked(1000): 1}))
    cluster = ClusterArrays([at("n", *free)])
    choice = board_of(cluster, "least_waste", mix=mix).best(PlacementRequest(request=asked(300)))
    tightest = board_of(cluster, "best_fit").best(PlacementRequest(request=asked(300)))
    assert choice is not None
    assert tightest is not None
    assert cluster.dev_free[choice.row, choice.column] == best
    assert cluster.dev_free[tightest.row, tightest.column] == min(free)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*SIZES, 1000]), st.integers(1, 9), min_size=1), st.sampled_from([0.002, 0.05]))
def test_the_waste_table_equals_its_formula(counts: dict[int, int], ending: float) -> None:
    mix = RequestMix.of({asked(milli): count for milli, count in counts.items()})
    table = waste_table(mix, ending=ending, size_max=2500)
    total = sum(counts.values())
    for left in range(1, 1001):
        fitting = {milli: count / total for milli, count in counts.items() if milli <= left and milli < 1000}
        weight = ending + sum(fitting.values()) + (counts.get(1000, 0) / total if left == 1000 else 0)
        waste = sum(part * table[left - milli] for milli, part in fitting.items()) + ending * left
        assert table[left] == pytest.approx(waste / weight)
        assert 0 <= table[left] <= left + 1e-6
    assert table[0] == 0
    assert table[2300] == pytest.approx(2 * table[1000] + table[300])


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [(0, CPU_PER_DEVICE), (10_000, CPU_PER_DEVICE), (2_000, 2_000), (100_000, 100_000), (10, CPU_PER_DEVICE)],
)
def test_an_unusual_cpu_per_device_is_taken_from_the_request_mix(cpu: int, expected: int) -> None:
    assert cpu_per_device(RequestMix.of({asked(1000, cpu=cpu): 3, asked(0, devices=0, cpu=9000): 2})) == expected


def test_before_any_history_every_tenth_is_as_likely() -> None:
    assert RequestMix.of({}).share_frequencies == tuple((milli, 0.1) for milli in range(100, 1000, 100))
    assert RequestMix.of({}).whole_frequency == 0.1
    assert cpu_per_device(RequestMix.of({})) == CPU_PER_DEVICE


@pytest.mark.parametrize(
    ("cores", "difference"), [(8_000, -STRANDED_WEIGHT), (96_000, SURPLUS_WEIGHT)], ids=["stranded", "surplus"]
)
def test_least_waste_weighs_devices_without_cpu_as_stranded_and_cpu_without_devices_as_surplus(
    cores: int, difference: float
) -> None:
    """A CPU-only request adds stranded devices or reduces surplus CPU."""
    cluster, wanted = ClusterArrays([at("n", 1000, cpu=cores)]), PlacementRequest(request=asked(0, devices=0, cpu=4000))
    score = int(board_of(cluster, "least_waste").scores(wanted)[0])
    assert score / FIXED == pytest.approx(difference * 4000 * 1000 / CPU_PER_DEVICE)
