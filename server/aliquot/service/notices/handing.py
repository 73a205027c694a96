"""Handing over: one try to bring a letter to a receiver, which ends in time whatever the receiver does."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from aliquot.service.notices.letters import Letter
from aliquot.service.notices.ports import Courier, NotDelivered
from aliquot.service.notices.receivers import Receiver

log: Final = logging.getLogger("aliquot.notices")

TRY_S_MAX: Final = 300.0
"""Of all that a courier does. It has time-outs of its own, but each answer in pieces begins them anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A receiver, and who brings it letters."""

    receiver: Receiver
    courier: Courier


async def handed_over(address: Address, letter: Letter, *, most_s: float = TRY_S_MAX) -> NotDelivered | None:
    """None once the receiver has it; else why not, which is logged."""
    error = await _tried(address.courier, letter, most_s=most_s)
    if error is not None:
        log.warning("receiver %s did not take %s: %s", address.receiver.name, letter.key, error)
    return error


async def _tried(courier: Courier, letter: Letter, *, most_s: float) -> NotDelivered | None:
    try:
        async with asyncio.timeout(most_s):
            await courier.deliver(letter)
    except NotDelivered as error:
        return error
    except TimeoutError:
        return NotDelivered(f"it was not done within {most_s:g} s")
    except Exception as error:  # a letter that cannot be written keeps nothing else of a server's from its work
        log.exception("the letter %s could not be written", letter.key)
        return NotDelivered(f"an error of the server: {type(error).__name__}", is_of_letter=True)
    return None
