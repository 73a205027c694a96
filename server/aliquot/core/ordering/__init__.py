"""Order policies: who is next. One policy a file; `ORDERS` names them."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aliquot.core.ordering import fair_share, fcfs, priority, sjf
from aliquot.core.ordering.score import Score, Standing
from aliquot.core.queue import IntArray
from aliquot_schema.errors import InvalidRequest

ORDERS: Final[Mapping[str, Score]] = {
    "fair_share": fair_share.score,
    "fcfs": fcfs.score,
    "gang": fcfs.score,
    "priority": priority.score,
    "sjf": sjf.score,
}
"""Every policy starts a gang whole or not at all; `gang` is another name of `fcfs`."""


def order_named(name: str) -> Score:
    """The order policy of this name.

    Raises:
        InvalidRequest: there is none; the message names those that there are.
    """
    found = ORDERS.get(name)
    if found is None:
        raise InvalidRequest(f"order: {name[:64]!r} is no policy; there are {', '.join(sorted(ORDERS))}", field="order")
    return found


def in_order(score: Score, standing: Standing) -> IntArray:
    """Positions of all rows of the queue, the next one first."""
    return np.argsort(-score(standing), kind="stable")
