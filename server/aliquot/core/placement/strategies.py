"""All placement strategies by name. One strategy a file."""

from collections.abc import Mapping
from typing import Final

from aliquot.core.placement.best_fit import BestFit
from aliquot.core.placement.dot_product import DotProduct
from aliquot.core.placement.fgd import Fgd
from aliquot.core.placement.first_fit import FirstFit
from aliquot.core.placement.least_waste import LeastWaste
from aliquot.core.placement.pack import Pack
from aliquot.core.placement.random_node import RandomNode
from aliquot.core.placement.requests import Mix
from aliquot.core.placement.spread import Spread
from aliquot.core.placement.strategy import Making, Strategy
from aliquot_schema.errors import InvalidRequest


def _constant(strategy: Strategy) -> Making:
    """For a strategy that learns nothing from the mix."""

    def make(_mix: Mix, /, *, size_max: int) -> Strategy:  # noqa: ARG001 # the arguments are those of a protocol
        return strategy

    return make


STRATEGIES: Final[Mapping[str, Making]] = {
    "least_waste": LeastWaste,
    "fgd": Fgd,
    "best_fit": _constant(BestFit()),
    "dot_product": _constant(DotProduct()),
    "pack": _constant(Pack()),
    "spread": _constant(Spread()),
    "random": _constant(RandomNode()),
    "first_fit": _constant(FirstFit()),
}


def making(name: str) -> Making:
    """What makes the strategy of this name.

    Raises:
        InvalidRequest: there is none; the message names those that there are.
    """
    found = STRATEGIES.get(name)
    if found is None:
        known = ", ".join(sorted(STRATEGIES))
        raise InvalidRequest(f"placement: {name[:64]!r} is no strategy; there are {known}", field="placement")
    return found
