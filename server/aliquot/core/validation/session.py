"""Session validation: turns a request into a session spec, or refuses it; needs no state of the cluster. Short names of
accelerators (`gpu`, `cuda`), and the CPUs and memory that come with each GPU, are filled in here too."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from operator import attrgetter
from typing import Final

from msgspec import Struct, msgpack

from aliquot.core.model.snapshot import milli_of
from aliquot.core.validation.fields import (
    activates_of,
    apps_of,
    check_limit,
    check_own_variable,
    checkpoint_every_of,
    count,
    grace_of,
    image_labels,
    image_of,
    limits_of,
    metrics_of,
    milliseconds,
    models_of,
    named_values,
    plain,
    preflight_of,
    sandbox_labels,
    sandbox_of,
    secrets_of,
    signal_of,
    with_fallbacks,
    workspace_of,
)
from aliquot_schema.errors import InvalidAmount, InvalidRequest, LimitExceeded, UnknownSlot, UnsupportedField
from aliquot_schema.ids import SessionId, SlotName
from aliquot_schema.requests import NewSession
from aliquot_schema.resources.slots import MILLI, SLOT_NAME, ResourceSlot, Unlimited, is_accelerator, parse_amount
from aliquot_schema.resources.units import format_size
from aliquot_schema.sessions import (
    CLUSTER_SIZE_MAX,
    COMMAND_BYTES_MAX,
    DEPENDENCIES_MAX,
    ENVIRONMENT_MAX,
    PRIORITIES,
    PRIORITY_FORM,
    RETRIES_MAX,
    Dependency,
    DependencyCondition,
    Priority,
    SessionSpec,
    Topology,
)

SHELL: Final = "/bin/sh"
GB: Final = 1_000_000_000
"""Bytes per unit of `gpu_memory_gb`; decimal, as GPUs are sold."""
BYTE_GB: Final = Decimal(1) / GB
SHARED_MAX: Final = 512
"""Specs that are kept to be shared by later equal requests."""
SHARED_BYTES_MAX: Final = 1000
"""Longest request, encoded, whose spec is kept."""
_OUTSIDE_SPEC: Final = frozenset({"name", "run_id", "tags", "idempotency_key", "local_name"})
"""Fields of a request that its spec does not depend on."""
_ASKED: Final = attrgetter(*(name for name in NewSession.__struct_fields__ if name not in _OUTSIDE_SPEC))
_KEYS: Final = msgpack.Encoder(enc_hook=dict)
_specs: Final[dict[bytes, SessionSpec]] = {}
"""Specs of earlier requests, by what was asked, encoded."""


def spec_of(request: NewSession) -> SessionSpec:
    """The spec of a request. Equal requests have the same one: of thousands that wait, many ask for the same, and each
    spec of its own would take 1 KB.

    Raises:
        InvalidRequest: or a subclass; the message names the field and the limit.
    """
    try:
        key = _KEYS.encode(_ASKED(request))
    except (OverflowError, TypeError, UnicodeEncodeError):
        return _validated(request)
    known = _specs.get(key)
    if known is None:
        known = _validated(request)
        if len(_specs) >= SHARED_MAX:
            _specs.clear()
        if len(key) <= SHARED_BYTES_MAX:
            _specs[key] = known
    return known


def _validated(request: NewSession) -> SessionSpec:
    _refuse_contradictions(request)
    slots = slots_of(request.slots)
    if not any(is_accelerator(slot) for slot in slots):
        _refuse_accelerator_terms(request)
    sandbox, environment, image = sandbox_of(request), environment_of(request.environment), image_of(request)
    spec = SessionSpec(
        argv=argv_of(request),
        slots=slots,
        cluster_size=count(request.cluster_size, field="cluster_size", least=1, most=CLUSTER_SIZE_MAX),
        cluster_size_min=_size_min(request),
        gpu_memory_bytes=None if request.gpu_memory_gb is None else gb_of(request.gpu_memory_gb),
        environment=environment,
        working_directory=_directory(request.working_directory),
        estimated_duration_ms=milliseconds(request.estimated_duration, field="estimated_duration"),
        time_limit_ms=milliseconds(request.time_limit, field="time_limit"),
        max_retries=count(request.max_retries, field="max_retries", least=0, most=RETRIES_MAX),
        retries_own_failures=request.retries_own_failures,
        preemptible=request.preemptible,
        checkpoint_signal=signal_of(request.checkpoint_signal),
        checkpoint_every_ms=checkpoint_every_of(request.checkpoint_every),
        grace_ms=grace_of(request.grace),
        metrics=metrics_of(request.metrics),
        depends_on=dependencies_of(request.depends_on),
        labels=named_values(request.labels, field="labels") | sandbox_labels(sandbox) | image_labels(image),
        preferred_labels=named_values(request.preferred_labels, field="preferred_labels"),
        models=models_of(request.models, field="models"),
        preferred_models=models_of(request.preferred_models, field="preferred_models"),
        topology=_topology(request.topology),
        outside_ms=milliseconds(request.external_lease, field="lease"),
        limits=limits_of(request),
        sandbox=sandbox,
        apps=apps_of(request.apps),
        workspace=workspace_of(request),
        activates=activates_of(request),
        image=image,
        shares_access=request.shares_access,
        preflight=preflight_of(request),
        secrets=secrets_of(request.secrets, variables=tuple(environment)),
    )
    return _with_fallbacks(spec, request) if request.fallbacks else spec


def _size_min(request: NewSession) -> int | None:
    """The smallest gang; None when it is the whole one."""
    least = request.cluster_size_min
    if least is None or least == request.cluster_size:
        return None
    if request.topology == Topology.REQUIRE:
        text = "cluster_size_min: a gang that must be on one switch (topology: require) starts whole"
        raise InvalidRequest(text, field="cluster_size_min")
    return count(least, field="cluster_size_min", least=1, most=request.cluster_size)


def argv_of(request: NewSession) -> tuple[str, ...]:
    """The command as an argument list; a shell string is run by /bin/sh."""
    if (request.argv is None) == (request.shell is None):
        raise InvalidRequest("command: give either argv or shell", field="command")
    argv = (SHELL, "-c", request.shell) if request.shell is not None else request.argv or ()
    if not argv or not argv[0].strip() or (request.shell is not None and not request.shell.strip()):
        raise InvalidRequest("command: it is empty; give the program to run", field="command")
    size = sum(len(part.encode("utf-8", "surrogatepass")) + 1 for part in argv)
    if size > COMMAND_BYTES_MAX:
        raise LimitExceeded(
            f"command: {size} bytes are more than {COMMAND_BYTES_MAX}; put the script into a file and run that",
            field="command",
            limit=COMMAND_BYTES_MAX,
            actual=size,
        )
    for part in argv:
        plain(part, field="command")
    return argv


def slots_of(pairs: Sequence[tuple[str, str]], *, field: str = "slots") -> ResourceSlot:
    """Amounts per kernel, from (slot, text) pairs."""
    amounts = amounts_of(pairs, field=field)
    if not any(amounts.values()):
        raise InvalidRequest(f"{field}: the request is empty; ask for example for cpu 1", field=field)
    return ResourceSlot(amounts)


def amounts_of(pairs: Sequence[tuple[str, str]], *, field: str) -> dict[SlotName, int]:
    """Amounts in base units, from (slot, text) pairs."""
    texts: dict[str, str] = {}
    for slot, amount in pairs:
        if SLOT_NAME.fullmatch(slot) is None:
            raise InvalidRequest(
                f"{field}: {slot[:64]!r} is not a slot name; use one like cpu or cuda.shares", field=field
            )
        if slot in texts:
            raise InvalidRequest(f"{field}: {slot} is given twice", field=field)
        texts[slot] = amount
    amounts: dict[SlotName, int] = {}
    for slot, text in texts.items():
        value = parse_amount(slot, text)
        if not isinstance(value, int):
            raise InvalidAmount(f"{slot}: a request cannot be unlimited; give a number", slot=slot, amount=text)
        amounts[SlotName(slot)] = value
    return amounts


def gb_of(text: str) -> int:
    """`gpu_memory_gb` in bytes; 1 GB is 10^9 bytes."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise InvalidRequest(f"gpu_memory_gb: {text[:40]!r} is not a number", field="gpu_memory_gb") from None
    if not amount.is_finite() or not BYTE_GB <= amount <= 1_000_000:
        raise InvalidRequest(f"gpu_memory_gb: {text[:40]} is not between 1 byte and 1000000 GB", field="gpu_memory_gb")
    return int(amount * GB)


def environment_of(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Environment variables of a session."""
    check_limit(len(pairs), field="environment", most=ENVIRONMENT_MAX)
    environment: dict[str, str] = {}
    size = 0
    for name, value in pairs:
        check_own_variable(name, field="environment")
        if name in environment:
            raise InvalidRequest(f"environment: {name[:64]} is given twice", field="environment")
        environment[name] = plain(value, field="environment")
        size += len(name) + len(value.encode("utf-8", "surrogatepass")) + 2
    if size > COMMAND_BYTES_MAX:
        raise LimitExceeded(
            f"environment: {size} bytes are more than {COMMAND_BYTES_MAX}",
            field="environment",
            limit=COMMAND_BYTES_MAX,
            actual=size,
        )
    return environment


def tags_of(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Tags of a session, for filters."""
    return named_values(pairs, field="tags")


def priority_of(text: str) -> Priority:
    """A priority by its name or its number."""
    found = PRIORITIES.get(text.strip().lower())
    if found is None:
        raise InvalidRequest(f"priority: {text[:40]!r} is not a priority; give {PRIORITY_FORM}", field="priority")
    return found


def dependencies_of(pairs: Sequence[tuple[str, str]]) -> tuple[Dependency, ...]:
    """Dependencies, without duplicates."""
    check_limit(len(pairs), field="depends_on", most=DEPENDENCIES_MAX)
    links = (
        Dependency(session_id=SessionId(plain(session_id, field="depends_on")), condition=_condition(condition))
        for session_id, condition in pairs
    )
    return tuple(dict.fromkeys(links))


def _condition(text: str) -> DependencyCondition:
    try:
        return DependencyCondition(text)
    except ValueError:
        known = ", ".join(DependencyCondition)
        raise InvalidRequest(f"depends_on: {text[:40]!r} is unknown; use one of {known}", field="depends_on") from None


def _refuse_contradictions(request: NewSession) -> None:
    for name in request.unsupported:
        raise UnsupportedField(f"{name}: this field has no effect yet; leave it out", field=name)
    if request.retries_own_failures and not request.max_retries:
        raise InvalidRequest("retries_own_failures: it needs max_retries above 0", field="retries_own_failures")


def _refuse_accelerator_terms(request: NewSession) -> None:
    terms = {
        "gpu_memory_gb": request.gpu_memory_gb,
        "models": request.models,
        "preferred_models": request.preferred_models,
    }
    for name, value in terms.items():
        if value:
            raise InvalidRequest(f"{name}: the request has no accelerator; add one to slots", field=name)


def _topology(text: str) -> Topology:
    try:
        return Topology(text)
    except ValueError:
        raise InvalidRequest(
            f"topology: {text[:40]!r} is unknown; use one of {', '.join(Topology)}", field="topology"
        ) from None


def _with_fallbacks(spec: SessionSpec, request: NewSession) -> SessionSpec:
    return with_fallbacks(
        spec,
        request.fallbacks,
        slots=[slots_of(wish.slots, field="fallbacks") for wish in request.fallbacks],
        memory=[None if wish.gpu_memory_gb is None else gb_of(wish.gpu_memory_gb) for wish in request.fallbacks],
    )


def _directory(path: str | None) -> str | None:
    if path is None:
        return None
    if not path.startswith("/") or len(path) > 4096:
        raise InvalidRequest(
            "working_directory: give an absolute path of at most 4096 characters", field="working_directory"
        )
    return plain(path, field="working_directory")


GPU: Final = "gpu"
"""Short name of the cluster's only kind of accelerator."""
CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
GIB: Final = 2**30
MIB: Final = 2**20
CLOSE: Final = 0.7
"""Least similarity of a slot that is meant; `cpu` and `gpu` have 0.67."""
Pairs = Sequence[tuple[str, str]]
"""(slot, amount as text)."""


class PerGpu(Struct, frozen=True, kw_only=True):
    """CPUs and memory of a session for each GPU that it requests; 0 = none."""

    cpus: int = 0
    mem_bytes: int = 0


def accelerator_kinds(known: Iterable[str]) -> tuple[str, ...]:
    """Kinds with whole devices or shares, in alphabetical order: `cuda` of `cuda.device`."""
    units = ((slot.partition(".")[0], slot.partition(".")[2]) for slot in known)
    return tuple(sorted({kind for kind, unit in units if unit in ("device", "shares")}))


def is_short(slot: str, *, known: Collection[str]) -> bool:
    """Whether a slot may be the short name of an accelerator."""
    return slot not in known and (slot == GPU or slot in accelerator_kinds(known))


def with_full_names(pairs: Pairs, *, known: Collection[str], field: str) -> tuple[tuple[str, str], ...]:
    """The amounts with `gpu`, or a kind like `cuda`, replaced by a slot: devices for a whole number, else shares.

    Args:
        known: slots of the cluster, or of the pool.
    Raises:
        UnknownSlot: `gpu` in a cluster with several kinds of accelerators, or none; the message names those that exist.
    """
    return tuple(
        (_full_name(slot, text, known=known, field=field) if is_short(slot, known=known) else slot, text)
        for slot, text in pairs
    )


def short_name(slot: str, text: str, *, known: Collection[str]) -> str:
    """`gpu` where that is read as this slot for such an amount, else the slot itself; the way back of
    `with_full_names`."""
    if is_short(GPU, known=known) and accelerator_kinds(known) == (slot.partition(".")[0],):
        return GPU if _full_name(GPU, text, known=known, field="") == slot else slot
    return slot


def _full_name(slot: str, text: str, *, known: Collection[str], field: str) -> str:
    kinds = accelerator_kinds(known)
    if slot == GPU and len(kinds) != 1:
        raise _ambiguous(kinds, known=known, field=field)
    kind = kinds[0] if slot == GPU else slot
    units = ("device", "shares") if _is_whole(text) else ("shares", "device")
    return next(name for name in (f"{kind}.{unit}" for unit in units) if name in known)


def _ambiguous(kinds: Sequence[str], *, known: Collection[str], field: str) -> UnknownSlot:
    if kinds:
        names = " or ".join(f"{kind}.device" for kind in kinds)
        words = f"gpu: this cluster has {len(kinds)} kinds of accelerators; write {names}"
    else:
        words = "gpu: no accelerator has been registered yet; write its slot, like cuda.device or cuda.shares"
    return UnknownSlot(f"{field}: {words}", slot=GPU, known=tuple(sorted(known)))


def _is_whole(text: str) -> bool:
    """Whether an amount is meant as whole devices; also for what is no number, which is refused later."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return True
    return not amount.is_finite() or amount == amount.to_integral_value()


def unknown_slot(slot: str, *, known: Collection[str], field: str) -> UnknownSlot:
    """The refusal of a slot that no agent has, with the one that is probably meant."""
    names = sorted({*known, *([GPU] if accelerator_kinds(known) else [])})
    close = [name for name in names if slot.startswith(name)] or get_close_matches(slot, names, n=1, cutoff=CLOSE)
    meant = f" Did you mean {close[0]}?" if close else ""
    listed = ", ".join(sorted(known))
    return UnknownSlot(
        f"{field}: no agent has slot {slot[:64]}; known slots: {listed}.{meant}", slot=slot, known=tuple(sorted(known))
    )


def with_host_amounts(pairs: Pairs, per_gpu: PerGpu, *, only: Collection[str] = (CPU, MEM)) -> Pairs:
    """The amounts of a request with the CPUs and memory that come with its GPUs, unless it names them itself.

    Fractions are rounded down: 0.2 GPU with 8 CPUs per GPU gets one CPU. Less than one CPU or 1 MiB is not requested.

    Args:
        only: the slots that may be added.
    Raises:
        InvalidAmount, NotMultipleOfQuantum: an amount of an accelerator is invalid.
    """
    named = {slot for slot, _ in pairs}
    milli = sum(map(_milli, pairs))
    cpus, mem = _of_gpus(milli, per_gpu)
    added = [(str(CPU), str(cpus))] if cpus and CPU in only else []
    added += [(str(MEM), format_size(mem))] if mem and MEM in only else []
    return (*pairs, *(pair for pair in added if pair[0] not in named))


def _milli(pair: tuple[str, str]) -> int:
    slot, text = pair
    if not is_accelerator(slot):
        return 0
    amount = parse_amount(slot, text)
    return 0 if isinstance(amount, Unlimited) else amount * milli_of(SlotName(slot))


def amended_amounts(
    amounts: Mapping[SlotName, int], changes: Mapping[SlotName, int], *, before: PerGpu, after: PerGpu
) -> dict[SlotName, int]:
    """The amounts of a request after a change of some of them; all in base units.

    New accelerators replace all earlier ones. CPUs and memory that came with the GPUs follow them, and those that were
    requested by themselves stay, unless the change names them. An amount of 0 is not requested.

    Args:
        before, after: what the request's pool gives with each GPU, before and after the change.
    """
    replaced = any(is_accelerator(slot) for slot in changes)
    kept = {slot: amount for slot, amount in amounts.items() if not (replaced and is_accelerator(slot))}
    found = {**kept, **changes}
    given, gives = _host_amounts(amounts, before), _host_amounts(found, after)
    for slot in (CPU, MEM):
        if slot not in changes and amounts.get(slot, 0) == given[slot]:
            found[slot] = gives[slot]
    return {slot: amount for slot, amount in found.items() if amount}


def _host_amounts(amounts: Mapping[SlotName, int], per_gpu: PerGpu) -> dict[SlotName, int]:
    """CPUs, and bytes of memory, that come with the GPUs of a request."""
    milli = sum(amount * milli_of(slot) for slot, amount in amounts.items())
    return dict(zip((CPU, MEM), _of_gpus(milli, per_gpu), strict=True))


def _of_gpus(milli: int, per_gpu: PerGpu) -> tuple[int, int]:
    """CPUs, and bytes of memory in whole MiB, that come with GPUs (in milli); rounded down."""
    return per_gpu.cpus * milli // MILLI, per_gpu.mem_bytes * milli // MILLI // MIB * MIB
