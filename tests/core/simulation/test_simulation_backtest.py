"""Backtests: the cluster of a run."""

from msgspec.structs import replace

from aliquot.core.simulation.backtest import Variant
from aliquot.core.simulation.cluster import nodes


def test_added_nodes_take_sessions_while_the_one_they_are_like_is_drained() -> None:
    first, second = nodes(2, gpus_each=8)
    drained = replace(first, is_open=False)
    found = Variant(label="more", like=drained.id, count=2, without=(second.id,)).agents((drained, second))
    assert [(agent.id, agent.is_open) for agent in found] == [("node0", False), ("node0+1", True), ("node0+2", True)]
