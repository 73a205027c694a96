"""Random clusters as arrays, and requests for them."""

from typing import Final

from hypothesis import strategies as st

from aliquot.core.placement.cluster_arrays import ClusterArrays, NodeRow
from aliquot.core.placement.scoreboard import PlacementRequest, Scoreboard
from aliquot.core.placement.strategies import making
from aliquot.core.placement.strategy import RequestClass, RequestMix

SIZES: Final = (100, 250, 300, 470, 500, 810)
NAMES: Final = ("least_waste", "fgd", "best_fit", "dot_product", "pack", "spread", "random", "first_fit")


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeRow]:
    """Up to eight nodes, some without devices, one or two device sizes."""
    return [
        NodeRow(
            name=f"n{number}",
            cpu=draw(st.sampled_from([0, 4000, 16000, 64000])),
            mem=draw(st.sampled_from([0, 100, 1000])),
            devices=tuple(draw(st.lists(st.sampled_from([1000, 1000, 1000, 2000]), max_size=4))),
        )
        for number in range(draw(st.integers(1, 8)))
    ]


@st.composite
def requests(draw: st.DrawFn) -> RequestClass:
    """A share, whole devices, or none."""
    devices = draw(st.sampled_from([0, 1, 1, 1, 2, 3]))
    milli = draw(st.sampled_from([*SIZES, 1000])) if devices else 0
    return RequestClass(
        cpu=draw(st.sampled_from([0, 1000, 6000])), mem=draw(st.sampled_from([0, 10, 90])), devices=devices, milli=milli
    )


def board_of(cluster: ClusterArrays, name: str, *, mix: RequestMix | None = None, seed: int = 0) -> Scoreboard:
    """A new scoreboard."""
    size_max = int(cluster.dev_size.max(initial=1000))
    return Scoreboard(cluster, making(name)(mix or RequestMix(counts=()), size_max=size_max), seed=seed)


def asks_of(kinds: list[RequestClass]) -> list[PlacementRequest]:
    """One for each class."""
    return [PlacementRequest(request=kind) for kind in dict.fromkeys(kinds)]
