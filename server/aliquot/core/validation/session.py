"""Session validation: turns a request into a session spec, or refuses it; needs no state of the cluster."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from aliquot.core.validation.fields import check_limit, check_own_variable, count, milliseconds, plain
from aliquot.core.validation.session_options import (
    grace_of,
    limits_of,
    models_of,
    named_values,
    sandbox_labels,
    sandbox_of,
    secrets_of,
    signal_of,
    with_fallbacks,
)
from aliquot_schema.errors import InvalidAmount, InvalidRequest, LimitExceeded, UnsupportedField
from aliquot_schema.ids import SessionId, SlotName
from aliquot_schema.requests import NewSession
from aliquot_schema.resources.slots import SLOT_NAME, ResourceSlot, is_accelerator, parse_amount
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
)

SHELL: Final = "/bin/sh"
GB: Final = 1_000_000_000
"""Bytes per unit of `gpu_memory_gb`; decimal, as GPUs are sold."""
BYTE_GB: Final = Decimal(1) / GB


def spec_of(request: NewSession) -> SessionSpec:
    """The spec of a request.

    Raises:
        InvalidRequest: or a subclass; the message names the field and the limit.
    """
    _refuse_contradictions(request)
    slots = slots_of(request.slots)
    if not any(is_accelerator(slot) for slot in slots):
        _refuse_accelerator_terms(request)
    sandbox, environment = sandbox_of(request), environment_of(request.environment)
    spec = SessionSpec(
        argv=argv_of(request),
        slots=slots,
        cluster_size=count(request.cluster_size, field="cluster_size", least=1, most=CLUSTER_SIZE_MAX),
        gpu_memory_bytes=None if request.gpu_memory_gb is None else gb_of(request.gpu_memory_gb),
        environment=environment,
        working_directory=_directory(request.working_directory),
        estimated_duration_ms=milliseconds(request.estimated_duration, field="estimated_duration"),
        time_limit_ms=milliseconds(request.time_limit, field="time_limit"),
        max_retries=count(request.max_retries, field="max_retries", least=0, most=RETRIES_MAX),
        retries_own_failures=request.retries_own_failures,
        preemptible=request.preemptible,
        checkpoint_signal=signal_of(request.checkpoint_signal),
        grace_ms=grace_of(request.grace),
        depends_on=dependencies_of(request.depends_on),
        labels=named_values(request.labels, field="labels") | sandbox_labels(sandbox),
        preferred_labels=named_values(request.preferred_labels, field="preferred_labels"),
        models=models_of(request.models, field="models"),
        preferred_models=models_of(request.preferred_models, field="preferred_models"),
        outside_ms=milliseconds(request.external_lease, field="lease"),
        limits=limits_of(request),
        sandbox=sandbox,
        secrets=secrets_of(request.secrets, variables=tuple(environment)),
    )
    return _with_fallbacks(spec, request) if request.fallbacks else spec


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
    texts: dict[str, str] = {}
    for slot, amount in pairs:
        if SLOT_NAME.fullmatch(slot) is None:
            raise InvalidRequest(
                f"{field}: {slot[:64]!r} is not a slot name; use one like cpu or cuda.shares", field=field
            )
        if slot in texts:
            raise InvalidRequest(f"{field}: {slot} is given twice", field=field)
        texts[slot] = amount
    amounts = {SlotName(slot): parse_amount(slot, text) for slot, text in texts.items()}
    for slot, value in amounts.items():
        if not isinstance(value, int):
            raise InvalidAmount(f"{slot}: a request cannot be unlimited; give a number", slot=slot, amount=texts[slot])
    if not any(amounts.values()):
        raise InvalidRequest(f"{field}: the request is empty; ask for example for cpu 1", field=field)
    return ResourceSlot(amounts)


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
        raise InvalidRequest(f"depends_on: {text[:40]!r} is none of {known}", field="depends_on") from None


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
