"""What is kept, and for how long, is set in the file or by the environment; what makes no sense is refused in words."""

from pathlib import Path

import pytest

from aliquot.errors import ConfigurationError
from aliquot.service.retention.periods import DAY_US
from aliquot.settings import read_settings


def test_the_defaults_keep_a_year_of_sessions() -> None:
    settings = read_settings()
    assert settings.periods.sessions_us == 365 * DAY_US
    assert settings.periods.events_us == 90 * DAY_US
    assert settings.periods.ledger_us == 30 * DAY_US
    assert settings.disk_rules.output_bytes_max == 2**30
    assert settings.disk_rules.outputs_kept_s == 30 * 86_400
    assert settings.archive_path == settings.data_folder / "server" / "archive"


def test_the_file_and_the_environment_say_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "aliquot.toml"
    file.write_text('keep-sessions = "forever"\nkeep-events = "12w"\ndisk-floor = "5g"\noutput-max = "0"\n')
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
        ("KEEP_EVENTS", "soon", "keep-events: write a number with h, d, w or y"),
        ("KEEP_SESSIONS", "0d", "keep-sessions: write a number with h, d, w or y"),
        ("DISK_FLOOR", "much", "disk-floor: 'much' is not a size"),
        ("OUTPUT_MAX", "5k", "output-max: give at least 1m, or 0"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ALIQUOT_{name}", value)
    with pytest.raises(ConfigurationError, match=words):
        read_settings()
