"""Orders: what sessions are sorted by, and the cursors that stand for a place in a list."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aliquot.service.paging import cursor_of, key_of, no_cursor
from aliquot.service.ports import SortKey
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import SESSION_PREFIX
from aliquot_schema.session_lists import SessionOrder
from aliquot_schema.sessions import Session
from aliquot_schema.slots import AMOUNT_MAX


@dataclass(frozen=True, slots=True)
class Sorting:
    """Sessions that are alike in `by` go by their ids, which sort by time of birth. What has no value comes last."""

    by: str
    """A field or property of `Session`, and the column of this name."""
    descending: bool
    is_text: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """What is compared, in this order; the id is the last."""
        return tuple(dict.fromkeys((self.by, "id")))

    def key(self, session: Session) -> SortKey:
        """One value for each of `fields`: the place of a session as it is now."""
        return tuple(getattr(session, name) for name in self.fields)

    def is_beyond(self, key: SortKey, *, after: SortKey) -> bool:
        """Whether one place comes after another one."""
        if (key[0] is None) != (after[0] is None):
            return key[0] is None
        place, other = (key[-1:], after[-1:]) if key[0] is None else (key, after)
        return place < other if self.descending else place > other


ORDERS: Final[Mapping[SessionOrder, Sorting]] = {
    SessionOrder.NEWEST: Sorting("id", descending=True, is_text=True),
    SessionOrder.OLDEST: Sorting("id", descending=False, is_text=True),
    SessionOrder.PRIORITY_DESC: Sorting("priority", descending=True),
    SessionOrder.PRIORITY_ASC: Sorting("priority", descending=False),
    SessionOrder.STARTED_DESC: Sorting("started_us", descending=True),
    SessionOrder.STARTED_ASC: Sorting("started_us", descending=False),
    SessionOrder.ENDED_DESC: Sorting("ended_us", descending=True),
    SessionOrder.ENDED_ASC: Sorting("ended_us", descending=False),
    SessionOrder.GPUS_DESC: Sorting("gpus_milli", descending=True),
    SessionOrder.GPUS_ASC: Sorting("gpus_milli", descending=False),
    SessionOrder.NAME_DESC: Sorting("name", descending=True, is_text=True),
    SessionOrder.NAME_ASC: Sorting("name", descending=False, is_text=True),
}


def cursor_at(key: SortKey, *, order: SessionOrder) -> str:
    """The cursor of a place: the order, the id, and the value unless there is none."""
    *value, session_id = key
    texts = [str(int(one)) if isinstance(one, int) else one for one in (session_id, *value) if one is not None]
    return cursor_of("\n".join((order, *texts)))


def place_of(cursor: str, *, order: SessionOrder) -> SortKey:
    """The inverse of `cursor_at`.

    Raises:
        InvalidRequest: it is of another order, or was not made here.
    """
    name, *rest = key_of(cursor).split("\n", 2)
    if name not in list(SessionOrder) or not rest or not rest[0].startswith(SESSION_PREFIX):
        raise no_cursor()
    if name != order:
        words = f"after: this cursor is of the order {name}, and the list is asked for in the order {order}"
        raise InvalidRequest(f"{words}; keep to one, or begin again without `after`", field="after")
    sorting = ORDERS[order]
    if len(sorting.fields) == 1:
        return (rest[0],)
    return (_value(rest[1], is_text=sorting.is_text) if len(rest) > 1 else None, rest[0])


def _value(text: str, *, is_text: bool) -> int | str:
    if is_text:
        return text
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(AMOUNT_MAX)) or int(text) > AMOUNT_MAX:
        raise no_cursor()
    return int(text)
