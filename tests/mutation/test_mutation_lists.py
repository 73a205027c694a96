"""The lists of `scripts/mutate`: named code exists, and every accepted survivor has its reason."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports a module of this folder, which runs as a program."""
    monkeypatch.syspath_prepend(str(HERE))
    return importlib.import_module


def test_the_listed_modules_and_tests_exist(load: Load) -> None:
    workplace = load("workplace")
    core = ROOT / "server" / "aliquot" / "core"
    assert [name for name in workplace.MODULES if not (core / f"{name}.py").is_file()] == []
    assert [path for path in workplace.TESTS if not (ROOT / path).exists()] == []
    assert {"scheduler/ordering", "scheduler/preemption", "quota"} <= set(workplace.MODULES)


def test_every_accepted_survivor_names_a_listed_module_and_a_reason(load: Load) -> None:
    accepted, workplace = load("accepted"), load("workplace")
    found = accepted.accepted_by(HERE / "accepted.toml")
    assert {one.module for one in found} <= set(workplace.MODULES)
    assert all(len(one.reason) > 10 for one in found)
    assert all(one.was.pattern or one.becomes.pattern for one in found)


def test_a_survivor_is_known_by_its_changed_line(load: Load) -> None:
    accepted = load("accepted")
    pattern = accepted.re.compile
    one = accepted.Accepted(module="gate", was=pattern("= 1"), becomes=pattern("= 2$"), reason="")
    assert one.holds("gate", "x = 1", "x = 2")
    assert not one.holds("gate", "x = 1", "x = 2 + y")
    assert not one.holds("quota", "x = 1", "x = 2")
