"""Registry of benchmark scenarios, and the keys that each gives."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One number, and its target on two slow cores."""

    name: str
    what: str
    reach: str
    """`<= 0.050`, `>= 100`, `> 0`, `= 0`, or `= 95.39 +- 1`."""

    def is_reached(self, value: float) -> bool:
        """Whether the number meets its target."""
        sign, _, rest = self.reach.partition(" ")
        text, _, slack = rest.partition(" +- ")
        limit = float(text)
        reached = {"<=": value <= limit, ">=": value >= limit, ">": value > limit}
        return reached[sign] if sign in reached else abs(value - limit) <= float(slack or 0)


def written(value: float) -> str:
    """A number with its significant digits."""
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A setup that gives one or more numbers."""

    keys: tuple[Key, ...]
    run: Callable[[], Awaitable[dict[str, float]]]
    """Gives at least the keys, in seconds, counts or bytes."""


_scenarios: Final[list[Scenario]] = []


def scenario(
    *keys: Key,
) -> Callable[[Callable[[], Awaitable[dict[str, float]]]], Callable[[], Awaitable[dict[str, float]]]]:
    """Register an async function as a scenario."""

    def register(run: Callable[[], Awaitable[dict[str, float]]]) -> Callable[[], Awaitable[dict[str, float]]]:
        _scenarios.append(Scenario(keys=keys, run=run))
        return run

    return register


def scenarios() -> tuple[Scenario, ...]:
    """All of them, in order of registration."""
    return tuple(_scenarios)


def chosen(names: frozenset[str]) -> tuple[Scenario, ...]:
    """The scenarios that give any of these keys; all of them for no names.

    Args:
        names: keys, or a prefix of several: `forecast` is every `forecast_...`.
    Raises:
        KeyError: no scenario gives a key; the message lists the existing keys.
    """
    known = {key.name for scenario in _scenarios for key in scenario.keys}
    if unknown := [name for name in sorted(names) if not any(is_asked(key, frozenset({name})) for key in known)]:
        raise KeyError(f"no such key: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return tuple(scenario for scenario in _scenarios if any(is_asked(key.name, names) for key in scenario.keys))


def is_asked(key: str, names: frozenset[str]) -> bool:
    """Whether a key equals or starts with one of these names; true if there are no names."""
    return not names or any(key == name or key.startswith(f"{name}_") for name in names)
