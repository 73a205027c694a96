"""Order policies: who is next. One policy a file; `ORDERS` names them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aliquot.core.ordering import fcfs
from aliquot.core.snapshot import PendingRow

Order = Callable[[Iterable[PendingRow]], list[PendingRow]]
"""Sorts the sessions that may start now; the result depends on the rows alone, not on their order."""

ORDERS: Final[Mapping[str, Order]] = {"fcfs": fcfs.order}
