"""Retention settings by flag, file and environment; invalid ones are refused with a message."""

import gc
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aliquot.cli import all_commands, main
from aliquot.errors import ConfigurationError
from aliquot.service.retention import DAY_US, Periods
from aliquot.settings import Settings, read_settings


def test_the_defaults_keep_a_year_of_sessions() -> None:
    settings = read_settings()
    assert settings.periods.sessions_us == 365 * DAY_US
    assert settings.periods.events_us == 90 * DAY_US
    assert settings.periods.ledger_us == 30 * DAY_US
    assert settings.disk_rules.output_bytes_max == 2**30
    assert settings.disk_rules.outputs_kept_s == 30 * 86_400
    assert settings.archive_path == settings.data_folder / "server" / "archive"


def test_retention_settings_are_read_from_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "aliquot.toml"
    file.write_text('keep-sessions = "forever"\nkeep-events = "11w7d"\ndisk-floor = "5g"\noutput-max = "0"\n')
    monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
    monkeypatch.setenv("ALIQUOT_KEEP_LEDGER", "36h")
    settings = read_settings()
    assert settings.periods.sessions_us is None
    assert settings.periods.events_us == 84 * DAY_US
    assert settings.periods.ledger_us == DAY_US * 3 // 2
    assert settings.disk_rules.bytes_min == 5 * 2**30
    assert settings.disk_rules.output_bytes_max is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "KEEP_EVENTS",
            "soon",
            "ALIQUOT_KEEP_EVENTS: give a duration with its unit, such as 36h, 90d or 1y, or forever",
        ),
        ("KEEP_EVENTS", "90", "ALIQUOT_KEEP_EVENTS: give a duration with its unit"),
        ("KEEP_SESSIONS", "0d", "ALIQUOT_KEEP_SESSIONS: give at least 1h"),
        ("KEEP_FINDINGS", "1m", "ALIQUOT_KEEP_FINDINGS: give at least 1h; m means minutes"),
        ("DISK_FLOOR", "much", "ALIQUOT_DISK_FLOOR: 'much' is not a size"),
        ("OUTPUT_MAX", "5k", "ALIQUOT_OUTPUT_MAX: give at least 1 MiB, or 0"),
    ],
)
def test_invalid_retention_settings_are_refused(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ALIQUOT_{name}", value)
    with pytest.raises(ConfigurationError, match=words):
        read_settings()


@pytest.fixture
def collector() -> Iterator[None]:
    """Restores garbage collection: the command disables it for the process."""
    yield
    gc.enable()


@pytest.mark.usefixtures("collector")
def test_keep_flags_set_the_retention_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []
    module = importlib.import_module("aliquot.cli.serve")
    monkeypatch.setattr(module, "_run", lambda settings, **_: seen.append(settings) or 0)
    asked = [f"--keep={kind}=36h" for kind in ("sessions", "events", "ledger", "findings", "logs", "results")]
    outcome = CliRunner().invoke(main, ["serve", *asked])
    assert outcome.exit_code == 0, outcome.output
    [settings] = seen
    day_and_half_us = DAY_US * 3 // 2
    assert settings.periods == Periods(
        sessions_us=day_and_half_us, events_us=day_and_half_us, ledger_us=day_and_half_us, findings_us=day_and_half_us
    )
    assert (settings.disk_rules.outputs_kept_s, settings.disk_rules.results_kept_s) == (36 * 3600, 36 * 3600)


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--keep=dreams=1d"], "kinds are sessions, events, ledger, findings, logs, results"),
        (["--keep=events"], "is not KIND=PERIOD"),
        (["--keep=events=soon", "--keep=logs=0d"], "keep-events: give .*\n.*keep-logs: give at least 1h"),
    ],
)
def test_all_invalid_keep_flags_are_reported(flags: list[str], words: str) -> None:
    outcome = CliRunner().invoke(main, ["serve", *flags])
    assert outcome.exit_code == 2
    assert re.search(words, outcome.stderr)


def test_the_help_of_keep_shows_the_defaults() -> None:
    known = {name: field.default for name, field in Settings.model_fields.items() if name.startswith("keep_")}
    parameter = next(one for one in all_commands().commands["serve"].params if one.name == "keep")
    for kind in ("sessions", "events", "ledger", "findings", "logs", "results"):
        assert f"{kind}={known[f'keep_{kind}']}" in str(parameter.show_default)
