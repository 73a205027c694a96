"""The server's clock when the machine's clock is set: never back, never still, and right again later."""

from aliquot.clock import SystemClock

S = 1_000_000


class Hands:
    """Both clocks of a machine, in microseconds."""

    def __init__(self) -> None:
        self.wall_us = 1000 * S
        self.monotonic_us = 0

    def go_on(self, seconds: float) -> None:
        self.wall_us += round(seconds * S)
        self.monotonic_us += round(seconds * S)


def clock_by(hands: Hands) -> SystemClock:
    return SystemClock(wall_ns=lambda: hands.wall_us * 1000, monotonic_ns=lambda: hands.monotonic_us * 1000)


def test_a_clock_set_back_runs_at_half_speed_until_the_wall_clock_catches_up() -> None:
    hands = Hands()
    clock = clock_by(hands)
    before = clock.now_us()
    hands.wall_us -= 60 * S
    assert clock.now_us() == before
    hands.go_on(10)
    assert clock.now_us() == before + 5 * S
    hands.go_on(200)
    assert clock.now_us() == hands.wall_us


def test_frequent_clock_reads_lose_no_time() -> None:
    hands = Hands()
    clock = clock_by(hands)
    before = clock.now_us()
    hands.wall_us -= 60 * S
    for _ in range(1001):
        hands.go_on(1e-6)
        clock.now_us()
    assert clock.now_us() == before + 500


def test_a_clock_set_forward_follows_immediately() -> None:
    hands = Hands()
    clock = clock_by(hands)
    clock.now_us()
    hands.wall_us += 60 * S
    assert clock.now_us() == hands.wall_us
