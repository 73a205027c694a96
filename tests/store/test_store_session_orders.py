"""Every order and filter, page by page: the database lists the same as sorting and filtering in memory."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import store_records as make
from aliquot.service.ports import SessionQuery, SortKey, Store
from aliquot.service.state.state import State
from aliquot.service.views.session_list import ORDERS, cursor_at, matching, place_of, sorted_page
from aliquot.service.views.terms import moment
from aliquot_schema.events import Record
from aliquot_schema.ids import AgentId, DeviceId, LeaseId, PoolId, SessionId, UserId
from aliquot_schema.requests import SessionFilter, SessionOrder, TimeRange
from aliquot_schema.resources.leases import Lease, LeaseKind
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Failure, Priority, Session, SessionSpec
from aliquot_schema.states import KernelState, SessionState

pytestmark = pytest.mark.anyio

NAMES = ("a", "A", "b", "ä", "a\nb", "", "%", "\U0001f600", "\uffff", None)
TIMES = (None, 1, 2, 3)
DEVICES = tuple(DeviceId(name) for name in ("GPU-1", "gpu-1", 'GPU"1', "cpu"))
AGENTS = tuple(AgentId(name) for name in ("agent-1", "agent-2", "agent-3"))
TAGS = (
    {},
    {"lr": "0.1"},
    {"a": "lr", "LR": "0.1", "odd=": "x"},
    {'q"lr': '","lr":"0.1"', "b": ""},
    {"b": "%", "lr": ""},
)
CODES = ("signal", "exit_code", 'odd"code')


def _sessions(count: int) -> list[Record]:
    """This many, with few distinct values; those of every third attempt have a kernel, or only a lease."""
    made: list[Record] = [make.agent(id=name) for name in AGENTS]
    for number in range(count):
        slots = ResourceSlot({"cpu": 1, "cuda.device": number % 3, "cuda.shares": 500 * (number % 2)})
        code = (None, *CODES)[number % 4]
        session = make.session(
            owner=UserId(("alice", "bob")[number % 2]),
            name=NAMES[number * 7 % len(NAMES)],
            pool=PoolId(("default", "big")[number % 5 == 0]),
            priority=Priority(1 + number * 3 % 4),
            queued_us=number // 3,
            started_us=TIMES[number * 5 % 4],
            ended_us=TIMES[number % 4],
            state=SessionState.FAILED if code else SessionState.QUEUED,
            failure=None if code is None else Failure(code=code, message="signal"),
            exit_code=number % 3 or None,
            array_id=SessionId("ses_array") if number % 6 == 0 else None,
            array_index=number if number % 6 == 0 else None,
            tags=TAGS[number % len(TAGS)],
            attempt=2,
            spec=SessionSpec(argv=("true",), slots=slots, cluster_size=1 + number % 2),
        )
        made += [session, *_held(session, number)]
    return made


def _held(session: Session, number: int) -> list[Record]:
    agent_id, device_id = AGENTS[number % 2], DEVICES[number % 4]
    spec = {"cpu": {DeviceId("cpu0"): 1}, "cuda.shares": {device_id: 500}}
    if number % 3 == 0:
        kernel = make.kernel(session, agent_id=agent_id, state=KernelState.EXITED)
        before = make.kernel(replace(session, attempt=1), agent_id=AGENTS[2], state=KernelState.EXITED)
        return [kernel, make.lease(kernel, spec=spec, released_us=5), before, make.lease(before, released_us=4)]
    allocation = Lease(
        id=LeaseId(f"{session.id}.out"),
        version=1,
        kind=LeaseKind.MANUAL,
        owner=session.owner,
        session_id=session.id,
        agent_id=agent_id,
        spec=spec,
        epoch=1,
        granted_us=1,
        released_us=None if number % 3 == 1 else 2,
    )
    return [allocation]


RECORDS = _sessions(36)


@pytest.fixture
async def filled(store: Store) -> Store:
    await store.commit(make.batch(*RECORDS))
    return store


def _some(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    return st.just(()) | st.lists(st.sampled_from(values), min_size=1, max_size=3).map(tuple)


SPANS = st.none() | st.builds(
    TimeRange,
    since=st.none() | st.integers(-1, 12).map(moment),
    until=st.none() | st.integers(-1, 12).map(moment),
)
TAG_TERMS = ("lr", "LR", "lr=0.1", "lr=0", "b=", "b=%", "b", 'q"lr', "a=lr", "", "lr=")
FILTERS = st.builds(
    SessionFilter,
    ids=_some([record.id for record in RECORDS if isinstance(record, Session)]),
    states=_some(list(SessionState)),
    owners=_some(["alice", "bob"]),
    name=st.none() | st.sampled_from(NAMES),
    search=st.none() | st.sampled_from(["A", "%", "\n", ""]),
    pools=_some(["default", "big"]),
    priorities=_some(list(Priority)),
    array_id=st.none() | st.just("ses_array"),
    queued_at=SPANS,
    started_at=SPANS,
    ended_at=SPANS,
    exit_codes=_some([0, 1, 2]),
    failures=_some([*CODES, "sig", "SIGNAL"]),
    devices=_some([*DEVICES, "mem", "cuda.shares"]),
    tags=_some(TAG_TERMS),
)
# Most filters of many terms match nothing: those of one term are drawn as often.
ONE_TERM = st.one_of(
    st.builds(SessionFilter, failures=_some(CODES)),
    st.builds(SessionFilter, devices=_some(DEVICES)),
    st.builds(SessionFilter, tags=_some(TAG_TERMS)),
    st.builds(SessionFilter, started_at=SPANS, ended_at=SPANS),
    st.builds(SessionFilter, priorities=_some(list(Priority)), exit_codes=_some([1, 2])),
)


@settings(deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    where=ONE_TERM | FILTERS,
    agents=st.none() | _some(AGENTS),
    order=st.sampled_from(SessionOrder),
    size=st.integers(1, 20),
)
async def test_the_store_lists_sessions_in_the_same_order_as_memory(
    filled: Store, where: SessionFilter, agents: tuple[AgentId, ...] | None, order: SessionOrder, size: int
) -> None:
    state = State()
    state.load(RECORDS, revision=1, ended_complete=True)
    query = SessionQuery(where=where, agents=agents, order=order)
    expected = _sorted_plainly(matching(state, query), order)
    assert await filled.count_sessions(query) == len(expected)
    after: SortKey | None = None
    stored: list[Session] = []
    while page := await filled.sessions(replace(query, after=after, limit=size)):
        piece, has_next = sorted_page(matching(state, query), replace(query, after=after, limit=size))
        assert (list(page), has_next) == (piece, len(stored) + len(page) < len(expected))
        stored += page
        after = place_of(cursor_at(ORDERS[order].key(page[-1]), order=order), order=order)
    assert stored == expected


def _sorted_plainly(found: list[Session], order: SessionOrder) -> list[Session]:
    """By the order's name."""
    by = {"priority": "priority", "started": "started_us", "ended": "ended_us", "gpus": "gpus_milli", "name": "name"}
    name = by.get(order.partition("_")[0], "id")
    descending = order == SessionOrder.NEWEST or order.endswith("_desc")
    valued = [session for session in found if getattr(session, name) is not None]
    rest = [session for session in found if getattr(session, name) is None]
    valued.sort(key=lambda session: (getattr(session, name), session.id), reverse=descending)
    return valued + sorted(rest, key=lambda session: session.id, reverse=descending)


async def test_every_filter_matches_some_sessions_and_not_all(filled: Store) -> None:
    """The comparison above is not between empty lists."""
    everything = await filled.count_sessions(SessionQuery())
    terms: list[dict[str, Any]] = [
        {"pools": ("big",)},
        {"priorities": (Priority.HIGH,)},
        {"array_id": "ses_array"},
        {"queued_at": TimeRange(until=moment(3))},
        {"started_at": TimeRange(since=moment(0))},
        {"ended_at": TimeRange(since=moment(2), until=moment(2))},
        {"exit_codes": (1,)},
        {"failures": ('odd"code',)},
        {"devices": ("GPU-1",)},
        {"devices": ('GPU"1',)},
        {"tags": ("lr",)},
        {"tags": ("lr=0.1",)},
    ]
    for term in terms:
        assert 0 < await filled.count_sessions(SessionQuery(where=SessionFilter(**term))) < everything, term
    for nothing in (
        SessionFilter(devices=("cuda.shares", "GPU")),  # slots are keys in the same text
        SessionFilter(failures=("SIGNAL", "sig")),
    ):
        assert await filled.count_sessions(SessionQuery(where=nothing)) == 0, nothing
    assert 0 < await filled.count_sessions(SessionQuery(agents=AGENTS[:1])) < everything
    assert await filled.count_sessions(SessionQuery(agents=AGENTS[2:])) == 0  # only attempts before the newest
    assert await filled.count_sessions(SessionQuery(agents=())) == 0


async def test_pages_list_unchanged_sessions_once_while_others_are_added_and_changed(filled: Store) -> None:
    """Each session whose sort key does not change is listed once."""
    query = SessionQuery(order=SessionOrder.PRIORITY_DESC, limit=7)
    still = [one for one in await filled.sessions(replace(query, limit=100)) if one.name != "b"]
    listed: list[Session] = []
    after: SortKey | None = None
    moving = [record for record in RECORDS if isinstance(record, Session) and record.name == "b"]
    while page := await filled.sessions(replace(query, after=after)):
        listed += page
        after = ORDERS[query.order].key(page[-1])
        changed = [make.moved(moving.pop(), SessionState.CANCELED, priority=Priority.LOW)] if moving else []
        await filled.commit(make.batch(make.session(priority=Priority.CRITICAL, name="b"), *changed))
    assert [one.id for one in listed if one.name != "b"] == [one.id for one in still]
