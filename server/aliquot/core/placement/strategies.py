"""Registry of placement strategies, by the name that a policy uses."""

from collections.abc import Mapping
from typing import Final

from aliquot.core.placement.fgd import Fgd
from aliquot.core.placement.least_waste import LeastWaste
from aliquot.core.placement.simple_strategies import BestFit, DotProduct, FirstFit, Pack, RandomNode, Spread
from aliquot.core.placement.strategy import RequestMix, Strategy, StrategyFactory
from aliquot_schema.errors import InvalidRequest


def _constant(strategy: Strategy) -> StrategyFactory:
    """Factory of a strategy that does not depend on the mix."""

    def make(_mix: RequestMix, /, *, size_max: int) -> Strategy:  # noqa: ARG001 # the arguments are those of a protocol
        return strategy

    return make


STRATEGIES: Final[Mapping[str, StrategyFactory]] = {
    "least_waste": LeastWaste,
    "fgd": Fgd,
    "best_fit": _constant(BestFit()),
    "dot_product": _constant(DotProduct()),
    "pack": _constant(Pack()),
    "spread": _constant(Spread()),
    "random": _constant(RandomNode()),
    "first_fit": _constant(FirstFit()),
}


def making(name: str) -> StrategyFactory:
    """The factory of a strategy.

    Raises:
        InvalidRequest: unknown name; the message lists the known ones.
    """
    found = STRATEGIES.get(name)
    if found is None:
        known = ", ".join(sorted(STRATEGIES))
        raise InvalidRequest(f"placement: {name[:64]!r} is unknown; use one of {known}", field="placement")
    return found
