"""The working copy where mutants are made and tested; the tool may write anywhere in it."""

import shutil
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PLACE: Final = ROOT / "build" / "mutation"
MODULES: Final = (
    "scheduler/ordering",
    "scheduler/preemption",
    "scheduler/backfill",
    "scheduler/conservative_backfill",
    "scheduler/expected_ends",
    "scheduler/decide",
    "scheduler/scheduling_pass",
    "scheduler/eligibility",
    "quota",
    "fairshare",
    "scheduler/shares",
    "transitions",
    "model/policy",
    "policy_changes",
    "prediction",
    "scheduler/reason_text",
    "scheduler/free_capacity",
)
"""The mutated modules, most important first."""
TESTS: Final = (
    "tests/core/properties",
    "tests/core/ordering",
    "tests/core/rules",
    "tests/core/test_core_scenarios.py",
    "tests/core/test_core_decide.py",
    "tests/core/test_core_quota.py",
    "tests/core/test_core_preempted_order.py",
)
"""Tests that judge a mutant: fast and deterministic."""
_COPIED: Final = {
    "server/aliquot": "src/aliquot",
    "schema/aliquot_schema": "src/aliquot_schema",
    "tests/core": "tests/core",
    "tests/support": "tests/support",
    "tests/data": "tests/data",
}
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "dashboard*", "test_simulation*", "test_placement*")
_SETTINGS: Final = """\
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "--strict-markers", "--strict-config"]
pythonpath = ["tests/support"]
markers = ["slow: takes more than ten seconds"]
timeout = 0

[tool.mutmut]
source_paths = ["src"]
only_mutate = [{modules}]
pytest_add_cli_args = ["--hypothesis-profile=mutation", "-p", "no:cacheprovider", "-p", "core_cpu_limit"]
pytest_add_cli_args_test_selection = [{tests}]
timeout_multiplier = 30.0
use_git_change_detection = false
use_setproctitle = false
"""
"""An endless mutant fails by its CPU time, so that the verdict does not depend on the machine's load."""


def prepare() -> None:
    """Update the copy; an unchanged file keeps its time, and so its mutants."""
    for source, target in _COPIED.items():
        _copy(ROOT / source, PLACE / target)
    shutil.rmtree(PLACE / "mutants" / "tests", ignore_errors=True)
    (PLACE / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    for module in MODULES:
        _forget_unless_mutated(PLACE / "mutants" / "src" / "aliquot" / "core" / f"{module}.py")
    modules = ", ".join(f'"src/aliquot/core/{module}.py"' for module in MODULES)
    tests = ", ".join(f'"{path}"' for path in TESTS)
    (PLACE / "pyproject.toml").write_text(_SETTINGS.format(modules=modules, tests=tests), encoding="utf-8")


def _forget_unless_mutated(copy: Path) -> None:
    """A file copied before it was listed here looks up to date to the tool."""
    if not copy.with_name(f"{copy.name}.meta").is_file():
        copy.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """As `rsync --delete`; a changed file gets the current time, which the tool compares."""
    fresh = target.with_name(f"{target.name}.fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(source, fresh, ignore=_LEFT_OUT, copy_function=shutil.copyfile)
    for path in (path for path in fresh.rglob("*.py") if path.is_file()):
        known = target / path.relative_to(fresh)
        if known.is_file() and known.read_bytes() == path.read_bytes():
            shutil.copystat(known, path)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
