"""Backoff: when a letter that was not taken is tried again, and when no more."""

from typing import Final

from aliquot_schema.notices import Delivery

FIRST_S: Final = 10
MOST_S: Final = 3600
END_US: Final = 24 * 3600 * 1_000_000


def wait_us(tries: int) -> int:
    """Until the next try, after so many: 10 s, 20 s, 40 s, ... an hour."""
    return min(FIRST_S << min(tries - 1, 12), MOST_S) * 1_000_000


def is_over(made_us: int, *, now_us: int) -> bool:
    """Whether it has been tried for long enough."""
    return now_us - made_us >= END_US


def is_too_old(one: Delivery, *, now_us: int) -> bool:
    """Whether it is not tried any more, or for the first time: from the end of quiet hours it has a day, too."""
    return is_over(one.made_us if one.tries else max(one.made_us, one.next_us), now_us=now_us)
