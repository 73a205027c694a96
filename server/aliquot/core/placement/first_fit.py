"""First fit: agents in natural order of their ids."""

from typing import Final

from aliquot.core.placement.requests import RequestClass
from aliquot.core.placement.strategy import Candidates, Scores, tightest


class FirstFit:
    """score = - place in the natural order."""

    draws_lots: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:  # noqa: ARG002 # one interface
        """Shares go on the tightest device."""
        return Scores(-candidates.name_rank, tightest(candidates))
