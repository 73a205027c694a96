"""Rules of a scenario: its policy, quotas and past usage."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from aliquot.core.fairshare import Usage, month_of
from aliquot.core.model.policy import Policy
from aliquot.core.policy_changes import amended
from aliquot.core.policy_tests.scenario import START_US
from aliquot.core.policy_tests.sessions import slots
from aliquot.core.policy_tests.tables import Entry, size
from aliquot_schema.ids import PoolId, ProjectId, QuotaId, UserId
from aliquot_schema.policies import PolicyDocument, Pool, preempt_word
from aliquot_schema.quotas import Account, Quota, QuotaScope, account_id, quota_id
from aliquot_schema.resources.slots import ResourceSlot, SlotAmounts
from aliquot_schema.sessions import DEFAULT_PROJECT

HOUR_OF_A_GPU: Final = 1000 * 3_600_000
"""Milli of a device x milliseconds."""
Read = Callable[[Entry], Any]
_text: Final = Entry.text
_whole: Final = Entry.whole
_duration: Final = Entry.duration_ms


def policy(entry: Entry) -> Policy:
    """The default policy with these fields changed."""
    return Policy.of(entry.checked(lambda: amended(PolicyDocument(), _read(_FIELDS)(entry))))


def default_policy() -> Policy:
    """The policy of a new server."""
    return Policy.of(PolicyDocument())


def quotas(entry: Entry) -> Mapping[QuotaId, Quota]:
    """The list `quotas`."""
    found = [_quota(item) for item in entry.items()]
    return {quota.id: quota for quota in found}


def usage(entry: Entry) -> Usage:
    """The list `usage`: decayed GPU-hours, which also count as charged in the current month."""
    found: dict[tuple[ProjectId, UserId], int] = {}
    for item in entry.items():
        table = item.table()
        user = UserId(table.need("owner", Entry.text))
        project = ProjectId(table.get("project", Entry.text, str(DEFAULT_PROJECT)))
        used = table.need("gpu_hours", _hours)
        table.finish()
        found[project, user] = found.get((project, user), 0) + used
    return Usage.of(
        Account(
            id=account_id(project, user),
            project=project,
            user=user,
            used=used,
            at_us=START_US,
            charged=used,
            month=month_of(START_US),
            month_charged=used,
        )
        for (project, user), used in found.items()
    )


def _quota(entry: Entry) -> Quota:
    table = entry.table()
    scope = QuotaScope(table.need("scope", lambda found: found.one_of(list(QuotaScope))))
    name = "" if scope is QuotaScope.CLUSTER else table.need("name", Entry.text)
    quota = Quota(
        id=quota_id(scope, name),
        version=1,
        scope=scope,
        name=name,
        max_slots=SlotAmounts(table.get("max", _slots, {})),
        own_slots=ResourceSlot(table.get("own", _slots, {})),
        max_queued=table.maybe("max_queued", Entry.whole),
        gpu_hours_per_month=table.maybe("gpu_hours_per_month", Entry.whole),
        weight=table.maybe("weight", Entry.whole),
    )
    table.finish()
    return quota


def _slots(entry: Entry) -> dict[Any, Any]:
    table = entry.table()
    found = slots(table)
    table.finish()
    return found


def _hours(entry: Entry) -> int:
    text = entry.text()
    if len(text) > 12 or not text.replace(".", "", 1).isdecimal():
        entry.refuse(f"{text[:32]!r} is not a number of hours")
    return int(Decimal(text) * HOUR_OF_A_GPU)


def _read(keys: Mapping[str, tuple[str, Read]]) -> Read:
    """A reader of a table of the policy into changes of the document."""

    def read(entry: Entry) -> dict[str, Any]:
        table = entry.table()
        changes = {}
        for key, (field, value) in keys.items():
            found = table.maybe(key, value)
            if found is not None:
                changes[field] = found
        table.finish()
        return changes

    return read


def _preemption(entry: Entry) -> dict[str, Any]:
    changes = _read(_PREEMPTION)(entry)
    preempt, victims = changes.pop("preempt", None), changes.pop("victims", None)
    word = entry.checked(lambda: preempt_word(preempt, victims, place=entry.place))
    return changes if word is None else {**changes, "preempt": word}


def _pools(entry: Entry) -> dict[PoolId, Pool]:
    found = {PoolId(name): _pool(pool) for name, pool in entry.pairs()}
    return dict(PolicyDocument().pools) | found


def _pool(entry: Entry) -> Pool:
    table = entry.table()
    pool = Pool(
        default_limit_ms=table.maybe("default_limit", Entry.duration_ms),
        cpu_per_gpu=table.maybe("cpu_per_gpu", Entry.whole),
        mem_bytes_per_gpu=table.maybe("mem_per_gpu", size),
    )
    table.finish()
    return pool


def _models(entry: Entry) -> dict[str, int]:
    return {model: milli.whole() for model, milli in entry.pairs()}


_WEIGHTS: Final[Mapping[str, tuple[str, Read]]] = {
    "age": ("age", _whole),
    "age_unit": ("age_unit_ms", _duration),
    "fair": ("fair", _whole),
    "short": ("short", _whole),
    "short_half": ("short_half_ms", _duration),
    "priority": ("priority", _whole),
    "level": ("level_ms", _duration),
    "sjf_age_pct": ("sjf_age_pct", _whole),
    "wait_bound": ("wait_bound_ms", _duration),
}
_CHARGES: Final[Mapping[str, tuple[str, Read]]] = {
    "accelerators": ("accelerator_milli", _models),
    "cpu_milli": ("cpu_milli", _whole),
    "mem_gib_milli": ("mem_gib_milli", _whole),
}
_PREEMPTION: Final[Mapping[str, tuple[str, Read]]] = {
    "preempt": ("preempt", _text),
    "victims": ("victims", _text),
    "run_min": ("run_ms_min", _duration),
    "preemptions_max": ("preemptions_max", _whole),
    "grace": ("grace_ms", _duration),
    "restart": ("restart_ms", _duration),
}
_FIELDS: Final[Mapping[str, tuple[str, Read]]] = {
    "order": ("order", _text),
    "backfill": ("backfill", _text),
    "backfill_depth": ("backfill_depth", _whole),
    "placement": ("placement", _text),
    "allocation": ("allocation", _text),
    "allow_fragmentation": ("allow_fragmentation", Entry.flag),
    "numa": ("numa", _text),
    "weights": ("weights", _read(_WEIGHTS)),
    "half_life": ("half_life_ms", _duration),
    "charges": ("charges", _read(_CHARGES)),
    "pools": ("pools", _pools),
    "preemption": ("preemption", _preemption),
}
