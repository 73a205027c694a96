"""Receivers and rules, as set in `aliquot.toml`."""

from pathlib import Path

import pytest

from aliquot.errors import ConfigurationError
from aliquot.settings import read_settings
from aliquot_schema.alerts import AlertRule, NoticeKind, Severity

WHOLE = """
alert-reminder-s = 86400

[notice-rules.queue_backlog]
threshold = 50
for-s = 60
severity = "critical"

[[receivers]]
name = "chat"
kind = "slack"
url-file = "/etc/aliquot/chat.url"
tells = ["alerts", "owners"]
kinds = ["agent_lost", "session_failed"]
quiet = { begin = "22:00", end = 07:00:00, zone = "UTC" }

[[receivers]]
name = "mail"
kind = "email"
host = "mail.example.org"
sender = "aliquot@example.org"
to = ["ops@example.org"]
severity = "warning"
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notices")


def test_receivers_and_rules_are_read_from_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _give(WHOLE, folder, monkeypatch)
    settings = read_settings()
    chat, mail = (table.receiver(table.kind) for table in settings.receivers)
    assert (chat.name, chat.kind, chat.tells_alerts, chat.tells_owners) == ("chat", "slack", True, True)
    assert chat.kinds == {NoticeKind.AGENT_LOST, NoticeKind.SESSION_FAILED}
    assert chat.quiet is not None
    assert (mail.kind, mail.least, mail.gather_s, mail.output_lines) == ("email", Severity.WARNING, 10, 20)
    rule = settings.alert_rules[AlertRule.QUEUE_BACKLOG]
    assert (rule.threshold, rule.for_s, rule.severity, rule.is_on) == (50, 60, Severity.CRITICAL, True)
    assert settings.alert_rules[AlertRule.DISK_LOW].severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[receivers]]\nname = "x"\nkind = "pager"', "receivers"),
        ('[[receivers]]\nname = "x"\nkind = "webhook"\nurl = "http://h/"\npassword = "x"', "password"),
        ('[[receivers]]\nname = "x"\nkind = "webhook"\nurl = "http://h/"\n' * 2, "two receivers have the name x"),
        (
            '[[receivers]]\nname = "a b"\nkind = "webhook"\nurl = "http://h/"',
            "name: a name here has 1 to 63 of the letters",
        ),
        ("[notice-rules.queue_backlogs]\nthreshold = 1", "notice-rules"),
        ("[notice-rules.queue_backlog]\nthreshold = -1", "threshold"),
    ],
)
def test_invalid_receivers_and_rules_are_refused_with_the_reason(
    text: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _give(text, folder, monkeypatch)
    with pytest.raises(ConfigurationError, match=words):
        read_settings()


def _give(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "aliquot.toml"
    file.write_text(text)
    monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
