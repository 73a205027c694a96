"""Objects are complete when their constructor returns: no other code sets their attributes later."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture_sources import SERVER, modules, place, tree

APP = SERVER / "app"
SERVICE = SERVER / "service"
RECORDS = {
    "service/agents/repairs.py": {"orders.launch", "orders.stop"},
    "service/lifecycle/agent_registration.py": {"repairs.orphans", "repairs.stop"},
    "service/ledger/recorder.py": {"self.watch.lost"},
    "service/ledger/replay.py": {"self._state.reachable", "state.books"},
    "service/leadership/follower_verdicts.py": {"state.reachable"},
    "service/metrics/metrics.py": {"spent.held", "spent.idle", "spent.measured_at", "spent.used"},
    "service/sessions/batches.py": {"error.args", "error.message"},
    "service/sessions/session_loader.py": {"self._state.kept"},
    "service/sessions/submission_checks.py": {"refusal.args", "refusal.message"},
    "service/state/evicted_sessions.py": {"state.kept"},
    "service/state/state.py": {"self._charging.books", "self.books.usage"},
    "service/state/usage_accounts.py": {"self.books.usage"},
    "service/subscriptions/devices.py": {"entry.alloc_map", "entry.map_number", "entry.number"},
    "service/subscriptions/sessions.py": {"trail.followers"},
}
"""Fields of plain records (values without behaviour that change, and the state itself) that a module assigns."""
DECLARATIONS = {"BaseModel", "BaseSettings", "Protocol"}
"""Bases of classes whose fields are set by a generated constructor."""


def test_the_composition_root_sets_no_attribute() -> None:
    """It makes objects and passes them to constructors. An attribute set later leaves a time in which the object is
    incomplete, and a type checker does not find its uses in that time. State that changes while a server runs (leader,
    follower) belongs to one object that changes it itself, and that others read through a function."""
    assert [place(path, node) for path in modules(APP) for node in ast.walk(tree(path)) if list(assigned(node))] == []


def test_services_set_attributes_of_plain_records_only() -> None:
    """The same rule, with the records listed. An entry that is no longer needed must be removed."""
    found: dict[str, set[str]] = {}
    for path in modules(SERVICE):
        targets = {target for node in ast.walk(tree(path)) for target in assigned(node)}
        if targets:
            found[str(path.relative_to(SERVER))] = targets
    assert found == RECORDS


def test_no_class_declares_an_attribute_to_be_filled_in_later() -> None:
    """`x: T | None = None` in a class body usually starts that."""
    assert [place(path, node) for path in modules(APP, SERVICE) for node in _open_attributes(path)] == []


@pytest.mark.parametrize(
    "code",
    [
        "cases.secrets.store = secrets",
        "self._door.executor = None",
        "a.b = self.c = 1",
        "first, door.executor = 1, 2",
        "journal.listeners += [hear]",
        "door.executor: object = 1",
        "setattr(door, 'executor', 1)",
        "for door.executor in (): pass",
        "with opened() as door.executor: pass",
    ],
)
def test_attribute_assignments_are_detected(code: str) -> None:
    assert [target for node in ast.walk(ast.parse(code)) for target in assigned(node)]


@pytest.mark.parametrize("code", ["self.x = 1", "x = 1", "self.x: int = 1", "self.x += 1", "known[key] = value", "a.b"])
def test_code_without_attribute_assignments_is_accepted(code: str) -> None:
    assert [target for node in ast.walk(ast.parse(code)) for target in assigned(node)] == []


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("class A:\n    x: int | None = None", 1),
        ("class A(B):\n    x: int | None = None", 1),
        ("class A(Protocol):\n    x: int | None = None", 0),
        ("@dataclass\nclass A:\n    x: int | None = None", 0),
        ("class A(Struct, frozen=True):\n    x: int | None = None", 0),
        ("class A:\n    def f(self) -> None:\n        x: int | None = None", 0),
    ],
)
def test_class_attributes_to_be_filled_in_later_are_detected(code: str, count: int) -> None:
    assert len(list(_open_in(ast.parse(code)))) == count


def assigned(node: ast.AST) -> Iterator[str]:
    """Attributes of other objects than `self` that a node assigns."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not _is_own(node.value):
        yield ast.unparse(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
        yield ast.unparse(node)


def _is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def _open_attributes(path: Path) -> Iterator[ast.AST]:
    return _open_in(tree(path))


def _open_in(code: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(code):
        if (
            not isinstance(node, ast.ClassDef)
            or node.decorator_list
            or any(option.arg == "frozen" for option in node.keywords)
            or DECLARATIONS & set(map(ast.unparse, node.bases))
        ):
            continue
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.value, ast.Constant) and line.value.value is None:
                yield line
