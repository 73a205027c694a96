"""The scoreboard: kept scores equal fresh ones, and only changed rows are scored again."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.core.placement.cluster_arrays import ClusterArrays, NodeRow
from aliquot.core.placement.scoreboard import NOWHERE, PlacementRequest, Scoreboard
from aliquot.core.placement.simple_strategies import BestFit
from aliquot.core.placement.strategies import STRATEGIES
from aliquot.core.placement.strategy import Candidates, RequestClass, RequestMix, Scores
from placement_clusters import NAMES, asks_of, board_of, nodes, requests
from placement_replay import columns_for


def test_all_strategies_are_tested() -> None:
    assert sorted(NAMES) == sorted(STRATEGIES)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(nodes(), st.lists(requests(), min_size=1, max_size=4), st.data())
def test_kept_scores_are_those_made_from_scratch(
    name: str, rows: list[NodeRow], kinds: list[RequestClass], data: st.DataObject
) -> None:
    """Across takes and gives in any order; nothing is held twice."""
    cluster = ClusterArrays(rows)
    mix = RequestMix.of(Counter(kinds))
    kept, asks = board_of(cluster, name, mix=mix), asks_of(kinds)
    held: list[tuple[int, RequestClass, list[int]]] = []
    for _ in range(data.draw(st.integers(1, 12))):
        ask = data.draw(st.sampled_from(asks))
        fresh = board_of(cluster, name, mix=mix)
        assert kept.best(ask) == fresh.best(ask)
        if held and data.draw(st.booleans()):
            row, request, columns = held.pop()
            cluster.release(row, cpu=request.cpu, mem=request.mem, milli=request.milli, columns=columns)
        elif (choice := kept.best(ask)) is not None:
            request = ask.request
            columns = columns_for(cluster, choice.row, request, column=choice.column)
            assert len(columns) == request.devices
            cluster.take(choice.row, cpu=request.cpu, mem=request.mem, milli=request.milli, columns=columns)
            held.append((choice.row, request, columns))
        assert min(cluster.cpu_free.min(), cluster.mem_free.min(), cluster.dev_free.min()) >= 0
    fresh = board_of(cluster, name, mix=mix)
    for ask in asks:
        assert kept.scores(ask).tobytes() == fresh.scores(ask).tobytes()


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(nodes(), requests())
def test_a_row_has_a_score_exactly_if_the_request_fits_on_it(
    name: str, rows: list[NodeRow], request: RequestClass
) -> None:
    cluster = ClusterArrays(rows)
    scores = board_of(cluster, name).scores(PlacementRequest(request=request))
    for node, score in zip(cluster.nodes, scores, strict=True):
        enough = sum(size >= request.milli for size in node.devices) >= request.devices
        assert (score != NOWHERE) == (enough and node.cpu >= request.cpu and node.mem >= request.mem)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(nodes(), requests(), st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_are_given_does_not_matter(
    name: str, rows: list[NodeRow], asked: RequestClass, dice: random.Random
) -> None:
    mixed = list(rows)
    dice.shuffle(mixed)
    one, other = ClusterArrays(rows), ClusterArrays(mixed)
    assert [node.name for node in one.nodes] == [node.name for node in other.nodes]
    ask = PlacementRequest(request=asked)
    assert board_of(one, name, seed=7).best(ask) == board_of(other, name, seed=7).best(ask)


class Counting(BestFit):
    """Counts the rows it scores."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        self.rows.append(len(candidates.rows))
        return super().score(candidates, request)


def three_nodes() -> tuple[ClusterArrays, Counting, Scoreboard]:
    cluster = ClusterArrays([NodeRow(name=f"n{number}", cpu=8000, mem=10, devices=(1000,)) for number in range(3)])
    strategy = Counting()
    return cluster, strategy, Scoreboard(cluster, strategy, seed=0)


def test_only_rows_that_changed_are_scored_again() -> None:
    cluster, strategy, board = three_nodes()
    ask = PlacementRequest(request=RequestClass(cpu=1000, mem=0, devices=1, milli=300))
    assert board.best(ask) is not None
    board.best(ask)
    cluster.take(1, cpu=1000, mem=0, milli=300, columns=[0])
    board.best(ask)
    assert strategy.rows == [3, 1]


def test_a_request_class_that_fits_nowhere_is_not_scored_again_until_a_release() -> None:
    cluster, strategy, board = three_nodes()
    whole, part = (
        PlacementRequest(request=RequestClass(cpu=0, mem=0, devices=1, milli=milli)) for milli in (1000, 100)
    )
    for row in range(3):
        cluster.take(row, cpu=0, mem=0, milli=100, columns=[0])
    assert board.best(whole) is None
    looks = len(strategy.rows)
    for row in range(3):
        cluster.take(row, cpu=0, mem=0, milli=100, columns=[0])
        assert board.best(whole) is None
        assert board.best(part) is not None
    assert sum(strategy.rows[looks:]) == 3 + 1 + 1
    cluster.release(1, cpu=0, mem=0, milli=200, columns=[0])
    choice = board.best(whole)
    assert choice is not None
    assert choice.row == 1


def test_a_row_that_was_refused_is_left_out_until_it_changes() -> None:
    cluster, _, board = three_nodes()
    ask = PlacementRequest(request=RequestClass(cpu=1000, mem=0, devices=1, milli=300))
    first = board.best(ask)
    assert first is not None
    board.refuse(ask, first.row)
    second = board.best(ask)
    assert second is not None
    assert second.row != first.row
    cluster.take(first.row, cpu=0, mem=0, milli=0, columns=[0])
    assert board.best(ask) == first


def test_the_random_strategy_depends_on_the_seed_and_reaches_every_node() -> None:
    cluster, _, _ = three_nodes()
    ask = PlacementRequest(request=RequestClass(cpu=0, mem=0, devices=1, milli=100))
    drawn = [board_of(cluster, "random", seed=seed).best(ask) for seed in range(40)]
    again = [board_of(cluster, "random", seed=seed).best(ask) for seed in range(40)]
    assert drawn == again
    assert {choice.row for choice in drawn if choice} == {0, 1, 2}


def test_unusable_devices_are_not_chosen() -> None:
    cluster = ClusterArrays([NodeRow(name="n", cpu=0, mem=0, devices=(1000, 1000, 1000))])
    usable = np.array([[False, True, False]])
    request = RequestClass(cpu=0, mem=0, devices=1, milli=100)
    for name in NAMES:
        choice = board_of(cluster, name).best(PlacementRequest(request=request, usable=usable))
        assert choice is not None
        assert choice.column == 1
    pair = RequestClass(cpu=0, mem=0, devices=2, milli=1000)
    assert board_of(cluster, "least_waste").best(PlacementRequest(request=pair, usable=usable)) is None
