"""What several servers on one database ask of it, beside the port `Store`."""

from dataclasses import dataclass
from typing import Protocol

from aliquot.service.ports import Loaded, Store


class SeatLost(Exception):
    """This server held the seat and cannot be sure of it any more; it must act as a leader no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentTerm:
    """The newest term."""

    epoch: int
    """0 before the first."""
    began_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning(PresentTerm):
    """What a term begins with. Nothing of an earlier term is committed after event `revision`."""

    revision: int
    last_at_us: int
    last_pass: int


class SharedStore(Store, Protocol):
    """A store that other servers write too."""

    async def join(self) -> Loaded:
        """As `open`, but the epoch stays as it is: somebody else may lead."""

    async def begin_term(self) -> Beginning:
        """Raise the epoch: from now on nothing can be committed in the name of an older one."""

    async def present_term(self) -> PresentTerm:
        """Who leads now, or led last, began so."""


class Seat(Protocol):
    """Of all servers one at most has it."""

    async def take(self) -> bool:
        """Try to have it.

        Raises:
            StoreUnavailable: the database cannot be asked.
        """

    async def holder(self) -> str | None:
        """The address of the server that has it, empty when it is not known; None when nobody has it.

        Raises:
            StoreUnavailable: the database cannot be asked.
        """

    async def hold(self) -> None:
        """Keep it, for ever.

        Raises:
            SeatLost: it may be another server's from now on.
        """

    async def leave(self) -> None:
        """Let another one have it."""


class News(Protocol):
    """Tells when another server has committed something."""

    async def wait(self, *, seconds: float) -> None:
        """Return when it has, since the last call, or may have, or after so many seconds. Never raises."""

    async def close(self) -> None:
        """Listen no more."""
