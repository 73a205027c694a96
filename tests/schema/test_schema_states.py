"""Transition tables."""

from collections.abc import Mapping
from enum import StrEnum

import pytest

from aliquot_schema.states import (
    ACTIVE,
    AGENT_MOVES,
    ENDED,
    KERNEL_MOVES,
    PENDING,
    SESSION_MOVES,
    AgentState,
    KernelState,
    SessionState,
)

Moves = Mapping[StrEnum, frozenset[StrEnum]]
TABLES: list[tuple[type[StrEnum], Moves, StrEnum]] = [
    (SessionState, SESSION_MOVES, SessionState.QUEUED),
    (KernelState, KERNEL_MOVES, KernelState.GRANTED),
    (AgentState, AGENT_MOVES, AgentState.ALIVE),
]
NAMES = ["session", "kernel", "agent"]

SESSION_WAYS = """
queued -> scheduled held running completed failed canceled
held -> queued failed canceled
scheduled -> allocating queued failed canceled
allocating -> running queued completed failed canceled
running -> completed failed canceled preempting queued
preempting -> queued completed failed canceled
completed ->
failed ->
canceled ->
"""


def _reach(moves: Moves, start: StrEnum) -> set[StrEnum]:
    reached, frontier = {start}, [start]
    while frontier:
        fresh = moves[frontier.pop()] - reached
        reached |= fresh
        frontier += fresh
    return reached


@pytest.mark.parametrize(("states", "moves", "start"), TABLES, ids=NAMES)
def test_every_state_has_a_row_and_can_be_reached(states: type[StrEnum], moves: Moves, start: StrEnum) -> None:
    assert set(moves) == set(states) == _reach(moves, start)


@pytest.mark.parametrize(("states", "moves", "start"), TABLES, ids=NAMES)
def test_no_state_moves_to_itself(states: type[StrEnum], moves: Moves, start: StrEnum) -> None:
    assert not any(state in targets for state, targets in moves.items())


def test_session_transitions_match_the_design() -> None:
    lines = [line.partition(" ->") for line in SESSION_WAYS.strip().splitlines()]
    assert {source: set(targets.split()) for source, _, targets in lines} == {
        str(state): {str(target) for target in targets} for state, targets in SESSION_MOVES.items()
    }


def test_session_states_are_pending_active_or_ended_and_ended_ones_stay() -> None:
    assert set(SessionState) == PENDING | ACTIVE | ENDED
    assert len(PENDING) + len(ACTIVE) + len(ENDED) == len(SessionState)
    assert {state for state, targets in SESSION_MOVES.items() if not targets} == ENDED


def test_every_session_can_end_and_be_canceled_before_that() -> None:
    for state in set(SessionState) - ENDED:
        assert SessionState.CANCELED in SESSION_MOVES[state]
        assert _reach(SESSION_MOVES, state) >= ENDED


def test_a_kernel_that_exited_stays_so_and_every_other_can_exit() -> None:
    assert not KERNEL_MOVES[KernelState.EXITED]
    assert all(KernelState.EXITED in KERNEL_MOVES[state] for state in set(KernelState) - {KernelState.EXITED})


def test_a_kernel_that_was_not_sent_cannot_be_unknown() -> None:
    assert KernelState.UNKNOWN not in KERNEL_MOVES[KernelState.GRANTED]


def test_an_agent_may_always_come_back() -> None:
    assert all(AgentState.ALIVE in AGENT_MOVES[state] for state in set(AgentState) - {AgentState.ALIVE})
