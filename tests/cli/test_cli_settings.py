"""Settings: flags before the environment before the file, and all errors in one report."""

from pathlib import Path

import pytest

from aliquot.errors import ConfigurationError
from aliquot.settings import DEPRECATED, FILE_VARIABLE, Settings, read_settings
from aliquot_schema.alerts import AlertRule
from aliquot_schema.deprecation import DeprecatedName

RESEARCH_NAMES = {
    "ray_head": "RESEARCH_AGENT_RAY_HEAD_NODE",
    "orchestration_enabled": "RESEARCH_AGENT_GPU_ORCHESTRATION_ENABLED",
    "scheduling_policy": "RESEARCH_AGENT_SCHEDULING_POLICY",
    "max_queue_size": "RESEARCH_AGENT_MAX_QUEUE_SIZE",
}
VALUES = {
    "ray_head": ("file:1", "env:2", "flag:3"),
    "scheduling_policy": ("fcfs", "sjf", "priority"),
    "max_queue_size": (1, 2, 3),
}


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"ALIQUOT_{name.upper()}", raising=False)
    for name in (*RESEARCH_NAMES.values(), *(_variable(one.old) for one in DEPRECATED)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)


def write(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "aliquot.toml").write_text(text)
    monkeypatch.setenv(FILE_VARIABLE, str(folder / "aliquot.toml"))


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("is_own", [True, False], ids=["ALIQUOT", "RESEARCH_AGENT"])
def test_flags_come_before_the_environment_before_the_file(
    name: str, is_own: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_file, in_environment, by_flag = VALUES[name]
    write(monkeypatch, tmp_path, f"{name.replace('_', '-')} = {in_file!r}\n")
    assert getattr(read_settings(), name) == in_file
    monkeypatch.setenv(f"ALIQUOT_{name.upper()}" if is_own else RESEARCH_NAMES[name], str(in_environment))
    assert getattr(read_settings(), name) == in_environment
    assert getattr(read_settings(**{name: by_flag}), name) == by_flag


def test_a_text_of_the_wrong_form_is_refused_with_an_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(monkeypatch, tmp_path, 'apps-domain = "apps"\napps-ports = "8100"\n')
    with pytest.raises(ConfigurationError) as refused:
        read_settings()
    domain, ports = str(refused.value).splitlines()
    assert domain == "apps-domain: wrong form. Domain of web services of sessions, like apps.example.org. (got 'apps')"
    assert "like 8100-8131" in ports
    assert "pattern" not in str(refused.value)


def test_a_setting_that_is_not_utf_8_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"^--host: its value is not text in UTF-8$"):
        read_settings(host="gpu\udcff")
    monkeypatch.setenv("ALIQUOT_HOST", "gpu\udcff")
    with pytest.raises(ConfigurationError, match=r"^ALIQUOT_HOST: its value is not text in UTF-8$"):
        read_settings()


@pytest.mark.parametrize("name", ["ALIQUOT_ORCHESTRATION_ENABLED", "RESEARCH_AGENT_GPU_ORCHESTRATION_ENABLED"])
def test_a_new_cluster_can_begin_stopped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().orchestration_enabled
    monkeypatch.setenv(name, "false")
    assert not read_settings().orchestration_enabled
    assert not read_settings(orchestration_enabled="no").orchestration_enabled


def test_aliquot_variables_override_research_agent_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_MAX_QUEUE_SIZE", "5")
    monkeypatch.setenv("RESEARCH_AGENT_MAX_QUEUE_SIZE", "6")
    assert read_settings().max_queue_size == 5


def test_all_invalid_settings_are_reported_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(monkeypatch, tmp_path, 'port = "x"\nbad = 1\nhost = "0.0.0.0"\ntls-key = "k"\nmax-queue-size = 0\n')
    monkeypatch.setenv("RESEARCH_AGENT_SCHEDULING_POLICY", "nobody_knows")
    with pytest.raises(ConfigurationError) as refused:
        read_settings(grace_s=-1)
    lines = str(refused.value).splitlines()
    variable = "RESEARCH_AGENT_SCHEDULING_POLICY:"
    for beginning in ("port:", "bad:", "max-queue-size:", variable, "grace-s:", "tls-certificate", "host:"):
        assert any(line.startswith(beginning) for line in lines), f"{beginning} is missing in {lines}"


def test_conflicting_settings_are_reported_with_other_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(monkeypatch, tmp_path, 'port = "x"\n[resource]\nallocation-mode = "manual"\n')
    with pytest.raises(ConfigurationError) as refused:
        read_settings()
    assert "port:" in str(refused.value)
    assert len(str(refused.value).splitlines()) > 1


def test_a_table_variable_that_is_not_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_OIDC_ROLES", "gpu-users=user")
    with pytest.raises(ConfigurationError, match=r"ALIQUOT_OIDC_ROLES.*JSON"):
        read_settings()


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ({}, "http://127.0.0.1:4711"),
        ({"host": "::1"}, "http://[::1]:4711"),
        ({"address": "https://gpu01:8090/"}, "https://gpu01:8090"),
    ],
)
def test_the_own_address_follows_the_settings(said: dict[str, str], address: str) -> None:
    assert read_settings(**said, port=4711).own_address == address


@pytest.mark.parametrize(
    ("text", "seconds"), [("120", 120), ("12.5", 12.5), ("2m", 120), ("2m30", 150), ("1 min 30 s", 90)]
)
def test_settings_in_seconds_take_durations(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_GRACE_S", text)
    monkeypatch.setenv("ALIQUOT_AGENT_LOST_S", text)
    settings = read_settings()
    assert (settings.grace_s, settings.agent_lost_s) == (seconds, seconds)


def test_the_settings_file_accepts_durations_for_all_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "aliquot.toml"
    file.write_text(
        'grace-s = "2m"\nagent-lost-s = 45\nalert-reminder-s = "1d12"\n'
        '[notice-rules.long_wait]\nthreshold = "2h30"\nfor-s = "5m"\n'
        '[[receivers]]\nkind = "webhook"\nname = "ours"\nurl = "https://example.com/"\ntimeout-s = "5s"\n'
    )
    monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
    settings = read_settings()
    assert (settings.grace_s, settings.agent_lost_s, settings.alert_reminder_s) == (120, 45, 129_600)
    rule = settings.alert_rules[AlertRule.LONG_WAIT]
    assert (rule.threshold, rule.for_s) == (9000, 300)
    assert settings.receivers[0].timeout_s == 5


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("GRACE_S", "soon", "ALIQUOT_GRACE_S: not a duration; write it like 90s, 15m, 2h30m or 1d12h"),
        ("GRACE_S", "2h", "ALIQUOT_GRACE_S: Input should be less than or equal to 3600"),
        ("ALERT_REMINDER_S", "10s", "ALIQUOT_ALERT_REMINDER_S: Input should be greater than or equal to 60"),
    ],
)
def test_invalid_durations_in_settings_are_refused(
    name: str, text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ALIQUOT_{name}", text)
    with pytest.raises(ConfigurationError, match=words):
        read_settings()


@pytest.mark.parametrize("name", ["respect-external", "respect_external"])
def test_an_old_name_in_the_file_works_and_is_reported(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(monkeypatch, tmp_path, f"{name} = false\n")
    with pytest.warns(DeprecatedName, match=r"aliquot.toml: respect-external is deprecated; use foreign-usage"):
        assert read_settings().foreign_usage == "ignore"
    assert read_settings(warns=False).foreign_usage == "ignore"


def test_an_old_name_in_the_environment_works_and_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(monkeypatch, tmp_path, 'foreign-usage = "avoid"\n')
    monkeypatch.setenv("ALIQUOT_RESPECT_EXTERNAL", "false")
    with pytest.warns(DeprecatedName, match="RESPECT_EXTERNAL is deprecated; use ALIQUOT_FOREIGN_USAGE"):
        assert read_settings().foreign_usage == "ignore"


def test_the_new_name_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_FOREIGN_USAGE", "ignore")
    assert read_settings().foreign_usage == "ignore"


def _variable(setting: str) -> str:
    return f"ALIQUOT_{setting.replace('-', '_').upper()}"
