"""Facts of the documentation: named tests exist, numbers are computed again, nothing is missing."""

import inspect
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
from aliquot_docs.drawing.partitions import AGENTS, divided
from aliquot_docs.pages import commands, fair_share, job_environment, modules, settings, slurm, troubleshooting, words
from aliquot_docs.pages.graphql_reference import graphql_pages
from aliquot_docs.pages.rest_reference import rest_page

from aliquot.api.limits import Limits
from aliquot.cli import db
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.run.keys import KEYS, dashed
from aliquot.cli.session import slurm as slurm_variables
from aliquot.errors import ConfigurationError
from aliquot.execution.devices.plugin import FAMILIES
from aliquot.settings import DEPRECATED, Settings, kebab, read_settings
from aliquot.store.archive.events import KEPT_MIN
from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.identity.access import ROOTS
from aliquot_schema.reasons import Reason
from docs_blocks import blocks
from docs_tree import DOCS, ROOT, pages

SETTING: Final = re.compile(r"`([a-z]+(?:-[a-z]+)+)`")
PERIOD: Final = re.compile(r"^\| [^|]+ \| ([^|]+) \| `(keep-[a-z]+)` \|$", re.MULTILINE)
IN_WORDS: Final = {"365d": ("a year", "365 days"), "90d": ("90 days",), "30d": ("30 days",), "24h": ("24 hours",)}
SOURCES: Final = ("server", "schema")
ENDS: Final = ("", ".py")
TEST: Final = re.compile(r"\btest_\w+\b")
FILE: Final = re.compile(r"\b(?:tests|scripts|server|docker)/[\w./-]*\w")
MADE: Final = frozenset(
    f"server/{name}"
    for name in (
        "agent-keys.json",
        "aliquot.db",
        "archive",
        "cluster-mark.json",
        "history.sqlite",
        "secrets.key",
        "workspaces",
    )
)
"""Files of a data folder, not of the source."""


def test_tests_and_files_that_pages_name_exist() -> None:
    defined = {name for path in (ROOT / "tests").rglob("*.py") for name in _tests_of(path.read_text(encoding="utf-8"))}
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert set(TEST.findall(re.sub(FILE, "", text))) - defined == set(), page
        assert [name for name in FILE.findall(text) if name not in MADE and not (ROOT / name).exists()] == [], page


def test_every_failure_names_the_test_that_proves_it() -> None:
    sections = (DOCS / "operating" / "failures.md").read_text(encoding="utf-8").split("\n### ")[1:]
    assert len(sections) >= 20
    assert [section.partition("\n")[0] for section in sections if "Proved by `test_" not in section] == []


def test_every_error_has_messages_and_something_to_do() -> None:
    assert set(words.expected_errors()) == set(troubleshooting.TO_DO)
    found = troubleshooting.messages(ROOT)
    assert sum(map(len, found.values())) > 200
    sections = troubleshooting.troubleshooting_sections(ROOT)
    for kind in words.expected_errors():
        assert f"### `{kind.code}`" in sections
    assert "text contains a NUL character" in sections, "a constant message"
    assert "order: … is unknown; use one of …" in sections, "a message with values"


def test_every_kind_of_device_is_documented_with_its_variable() -> None:
    text = (DOCS / "concepts" / "devices.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `(\w+)`[^|]* \| (\w+)", text, re.MULTILINE)
    known = {kind: (one.variable, "numbers" if one.by_number else "ids") for kind, one in FAMILIES.items()}
    assert {kind: (variable, lists) for kind, variable, lists in rows} == known


def test_every_setting_is_documented_with_its_variable() -> None:
    table = settings.settings_tables()
    assert [name for name in Settings.model_fields if f"| `{kebab(name)}` |" not in table] == []
    assert settings.serve_flags()["local_agents"] == "--no-local-agents"
    assert table.count("ALIQUOT_") >= len(Settings.model_fields) - len(settings.TABLES)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_settings_files_shown_in_the_docs_are_accepted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in blocks(page):
        if block.file == "aliquot.toml":
            file = tmp_path / block.file
            file.write_text(block.text, encoding="utf-8")
            monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
            assert read_settings().model_fields_set


def test_settings_that_are_named_exist() -> None:
    units = {path.stem for path in (ROOT / "docker" / "systemd").glob("*.service")}
    old = {one.old for one in DEPRECATED}
    known = {kebab(name) for name in Settings.model_fields} | old | {mode.value for mode in AllocationMode} | units
    known |= {dashed(name) for name in KEYS} | {"after-any", "after-failed", "sftp-server", "code-server"}
    named = {page.name: set(SETTING.findall(page.read_text(encoding="utf-8"))) for page in pages()}
    assert {page: unknown for page, found in named.items() if (unknown := found - known)} == {}


def test_documented_retention_periods_are_the_defaults() -> None:
    said = {
        name: lasts for lasts, name in PERIOD.findall((DOCS / "operating/retention.md").read_text(encoding="utf-8"))
    }
    kept = {kebab(name): info.default for name, info in Settings.model_fields.items() if name.startswith("keep_")}
    assert said.keys() == kept.keys()
    assert [name for name, lasts in said.items() if not lasts.startswith(IN_WORDS[kept[name]])] == []


def test_the_number_of_events_that_are_always_kept_is_documented() -> None:
    kept = f"The newest {KEPT_MIN:,} events"
    assert kept in (DOCS / "operating/retention.md").read_text(encoding="utf-8")
    assert kept in " ".join((inspect.getdoc(db.archive) or "").split())


def test_the_documented_proxy_accepts_the_largest_request() -> None:
    page = (DOCS / "operating/security.md").read_text(encoding="utf-8")
    assert f"client_max_body_size {Limits().body_bytes >> 20}m;" in page


def test_a_backup_has_the_archives() -> None:
    page = (DOCS / "operating/backup.md").read_text(encoding="utf-8")
    assert f"`{Settings().archive_path.relative_to(Settings().data_folder)}`" in page


@pytest.mark.parametrize("name", sorted(settings.TABLES))
def test_a_settings_table_cannot_be_set_by_a_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ALIQUOT_{name.upper()}", "{}")
    with pytest.raises(ConfigurationError, match=f"ALIQUOT_{name.upper()}: "):
        read_settings()


def test_the_retention_of_findings_can_be_set_by_a_flag() -> None:
    assert settings.serve_flags()["keep_findings"] == "--keep findings=PERIOD"


def test_every_command_is_documented() -> None:
    page = commands.commands_page()
    assert [path for path in commands.command_paths() if f" `{path}`\n" not in page] == []


def test_every_operation_documents_the_role_it_requires() -> None:
    page = graphql_pages()["graphql-operations.md"]
    assert page.count("Requires: ") == len(ROOTS)
    assert "Requires: " in rest_page()


def test_documented_reasons_and_errors_are_complete() -> None:
    for reason in Reason:
        assert f"| `{reason.value}` |" in words.members_table(Reason, head="reason")
    assert len(words.expected_errors()) >= 20


def test_every_package_has_a_line() -> None:
    for source in modules.ROOTS:
        found = dict(modules.packages(ROOT / source))
        folders = {path.parent for path in (ROOT / source).rglob("*.py")}
        assert {".".join(folder.relative_to((ROOT / source).parent).parts) for folder in folders} <= found.keys()
        assert [name for name, said in found.items() if not said.strip()] == []


def test_components_name_modules_that_exist() -> None:
    text = (DOCS / "design" / "modules.md").read_text(encoding="utf-8")
    named = re.findall(r"`(aliquot(?:_schema)?[\w.]*)`", text)
    known = {name for source in modules.ROOTS for name, _ in modules.packages(ROOT / source)}
    assert named
    assert set(named) <= known


@pytest.mark.parametrize("page", sorted((DOCS / "design").glob("*.md")), ids=lambda page: page.stem)
def test_modules_that_design_pages_name_exist(page: Path) -> None:
    named = set(re.findall(r"`(aliquot(?:_schema)?(?:\.\w+)+)`", page.read_text(encoding="utf-8"))) - {"aliquot.toml"}
    missing = [
        name
        for name in named
        if not any((ROOT / top / name.replace(".", "/")).with_suffix(end).exists() for top in SOURCES for end in ENDS)
    ]
    assert missing == []


def test_documented_layers_are_those_of_the_import_contracts() -> None:
    page = (DOCS / "design" / "layers.md").read_text(encoding="utf-8")
    listed = {
        name: re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
        for name, _, section in (part.partition("\n") for part in page.split("\n## ")[1:])
    }
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    expected = {
        f"`{one['containers'][0]}`": [
            ", ".join(f"`{name.strip()}`" for name in line.split("|")) for line in one["layers"]
        ]
        for one in tools["importlinter"]["contracts"]
        if one["type"] == "layers" and one["containers"] != ["aliquot"]
    }
    assert listed == expected


def test_the_documented_fair_share_example_matches_the_scheduler() -> None:
    text = (DOCS / "concepts" / "fair-share.md").read_text(encoding="utf-8")
    anna, *others = fair_share.PEOPLE
    project, everybody = (sum(map(fair_share.used_h, some)) for some in ((anna, others[0]), fair_share.PEOPLE))
    age, fair, short, priority = fair_share.terms(anna)
    shown = [f"{value:.1f}" for value in (project, everybody, fair_share.used_h(anna))]
    shown += [f"{value:.2f}" for value in (age, fair, short, priority, age + fair + short + priority)]
    by_project = 1 / (1 + project / everybody / 0.5)
    by_person = 1 / (1 + fair_share.used_h(anna) / everybody / 0.25)
    shown += [f"{value:.2f}" for value in (by_project, by_person)]
    assert (by_project + by_person) / 2 == pytest.approx(fair, abs=1e-5)
    by_hand = text.partition("by hand")[2]
    assert [number for number in shown if number not in by_hand] == []


def test_the_picture_of_allocation_modes_matches_the_actual_division() -> None:
    found = {mode: [len(parts[agent]) for agent in AGENTS] for mode, parts in divided().items()}
    assert found == {AllocationMode.SHARED: [5, 5], AllocationMode.AUTO_SPLIT: [3, 2], AllocationMode.MANUAL: [1, 3]}


def test_the_documented_slurm_variables_are_those_of_the_code() -> None:
    source = inspect.getsource(slurm_variables)
    assert set(slurm.variables()) == set(re.findall(r"\bSLURM[A-Z]*_[A-Z_]*[A-Z]\b", source))


@pytest.mark.anyio
async def test_a_real_job_has_the_variables_that_are_shown(demo: OwnServer) -> None:
    async with demo.client() as client:
        session = await client.submit(["env"], slots={"cuda.shares": 0.5, "cpu": 2, "mem": "1g"}, array="7")
        await client.wait(session.id)
        printed = [chunk.text async for chunk in client.logs(f"{session.id}_7")]
    pairs = dict(line.partition("=")[::2] for line in "".join(printed).splitlines())
    real, shown = set(pairs), job_environment.example_environment()
    (real_file, shown_file) = (Path(one["ALIQUOT_RESOURCE_FILE"]) for one in (pairs, shown))
    assert real_file.parent.parent.name == shown_file.parent.parent.name == "kernels"
    of_others = {"MASTER_ADDR", "MASTER_PORT", "ALIQUOT_SECRETS_DIR"}
    assert real ^ job_environment.example_environment().keys() <= of_others


def _tests_of(source: str) -> list[str]:
    return re.findall(r"def (test_\w+)", source)
