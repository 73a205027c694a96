"""Policy changes: merges changes into the policy document field by field and validates the result."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.allocation.options import NumaPolicy, ShareStrategy
from aliquot.core.placement.strategies import making
from aliquot.core.scheduler.ordering import order_named
from aliquot_schema.billing import AtBudget
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.policies import DAY_MS, Backfill, IdleAction, PolicyDocument, Pool, PreemptScope
from aliquot_schema.resources.devices import MEMORY_BYTES_MAX
from aliquot_schema.resources.units import format_duration
from aliquot_schema.sessions import DEFAULT_POOL

Part = TypeVar("Part", bound=Struct)
YEARS_MS: Final = 3660 * DAY_MS
WEIGHT_MAX: Final = 1_000
"""With units of at least a second, this keeps every score within 64 bits."""
CURRENCY_CHARS_MAX: Final = 8
CPU_PER_GPU_MAX: Final = 4096
RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "backfill_depth": (1, 10_000),
    "half_life_ms": (60_000, YEARS_MS),
    "weights.age": (1, WEIGHT_MAX),
    "weights.age_unit_ms": (1_000, YEARS_MS),
    "weights.fair": (0, WEIGHT_MAX),
    "weights.short": (0, WEIGHT_MAX),
    "weights.short_half_ms": (1_000, YEARS_MS),
    "weights.priority": (0, WEIGHT_MAX),
    "weights.level_ms": (1_000, YEARS_MS),
    "weights.sjf_age_pct": (1, 100),
    "weights.wait_bound_ms": (0, YEARS_MS),
    "charges.cpu_milli": (0, 1_000_000),
    "charges.mem_gib_milli": (0, 1_000_000),
    "preemption.run_ms_min": (0, YEARS_MS),
    "preemption.preemptions_max": (0, 1_000),
    "preemption.grace_ms": (0, DAY_MS),
    "preemption.restart_ms": (0, DAY_MS),
    "preemption.idle.tell_ms": (60_000, YEARS_MS),
    "preemption.idle.again_ms": (60_000, YEARS_MS),
    "preemption.idle.act_ms": (60_000, YEARS_MS),
    "preemption.idle.keep_ms": (60_000, YEARS_MS),
    "retries.tries_min": (0, 1_000),
    "retries.wait_ms_first": (1, DAY_MS),
    "retries.wait_ms_max": (1, DAY_MS),
    "retries.jitter_pct": (0, 100),
    "prices.utc_offset_minutes": (-1440, 1440),
}
"""Inclusive ranges. The weight of waiting is at least 1, which prevents starvation."""
_WORDS: Final[Mapping[str, type[Enum]]] = {
    "backfill": Backfill,
    "allocation": ShareStrategy,
    "numa": NumaPolicy,
    "preemption.preempt": PreemptScope,
    "prices.at_budget": AtBudget,
    "preemption.idle.action": IdleAction,
}


def amended(document: PolicyDocument, changes: Mapping[str, Any]) -> PolicyDocument:
    """The document with some fields changed.

    Args:
        changes: by the names of `PolicyDocument`, nested as it is, in its units; mappings (`pools`,
            `charges.accelerator_milli`) are replaced as a whole, and words are text.
    Raises:
        InvalidRequest: the result would be invalid; the message states the valid values.
    """
    found = _amended(document, changes, path="")
    check(found)
    return found


def check(document: PolicyDocument) -> None:
    """Validate a document.

    Raises:
        InvalidRequest: as `amended`.
    """
    order_named(document.order)
    making(document.placement)
    for path, words in _WORDS.items():
        _word(words, _value(document, path), path=path)
    for path, (least, most) in RANGES.items():
        _within(_value(document, path), least, most, path=path)
    for model, milli in document.charges.accelerator_milli.items():
        _within(milli, 0, 1_000_000, path=f"charges.accelerators[{model[:64]}]")
    if document.retries.wait_ms_first > document.retries.wait_ms_max:
        raise InvalidRequest("retries: wait_first is longer than wait_max", field="retries.wait_first")
    _check_pools(document.pools)
    currency = document.prices.currency
    if not 1 <= len(currency) <= CURRENCY_CHARS_MAX or not currency.isalpha():
        raise InvalidRequest(
            f"prices.currency: {currency[:20]!r} is not a name; use 1 to {CURRENCY_CHARS_MAX} letters",
            field="prices.currency",
        )
    for project, action in document.preemption.idle.projects.items():
        _word(IdleAction, action, path=f"preemption.idle.projects[{project[:64]}]")


def _amended(part: Part, changes: Mapping[str, Any], *, path: str) -> Part:
    known = part.__struct_fields__
    news: dict[str, Any] = {}
    for name, value in changes.items():
        assert name in known, f"{path}{name} is no field of the policy"
        current = getattr(part, name)
        if isinstance(current, Struct):
            news[name] = _amended(current, value, path=f"{path}{name}.")
        else:
            words = type(current) if isinstance(current, Backfill | PreemptScope | AtBudget | IdleAction) else None
            news[name] = _word(words, value, path=path + name) if words is not None else value
    return replace(part, **news)


def _word(words: type[Enum], value: object, *, path: str) -> Enum:
    try:
        return words(value)
    except ValueError:
        valid = ", ".join(sorted(str(word.value) for word in words))
        raise InvalidRequest(f"{path}: {str(value)[:64]!r} is unknown; use one of {valid}", field=path) from None


def _within(value: int, least: int, most: int, *, path: str) -> None:
    if not least <= value <= most:
        name = path.replace("_ms", "")
        given, low, high = (_number_text(number, is_ms=name != path) for number in (value, least, most))
        raise InvalidRequest(f"{name}: {given} is not between {low} and {high}", field=name)


def _number_text(number: int, *, is_ms: bool) -> str:
    if not is_ms:
        return str(number)
    return format_duration(number / 1000) if number >= 0 else f"{number} ms"


def _check_pools(pools: Mapping[Any, Pool]) -> None:
    if DEFAULT_POOL not in pools:
        raise InvalidRequest(f"pools: {DEFAULT_POOL} is missing; sessions that name no pool use it", field="pools")
    for name, pool in pools.items():
        if not 1 <= len(name) <= 64 or not name.isprintable() or name != name.strip():
            raise InvalidRequest(f"pools: {name[:64]!r} is not a name; use 1 to 64 printable characters", field="pools")
        if pool.default_limit_ms is not None:
            _within(pool.default_limit_ms, 1_000, YEARS_MS, path=f"pools[{name}].default_limit_ms")
        if pool.cpu_per_gpu is not None:
            _within(pool.cpu_per_gpu, 0, CPU_PER_GPU_MAX, path=f"pools[{name}].cpu_per_gpu")
        if pool.mem_bytes_per_gpu is not None:
            _within(pool.mem_bytes_per_gpu, 0, MEMORY_BYTES_MAX, path=f"pools[{name}].mem_per_gpu")
        if pool.idle is not None:
            _word(IdleAction, pool.idle, path=f"pools[{name}].idle")


def _value(document: PolicyDocument, path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        value = getattr(value, name)
    return value
