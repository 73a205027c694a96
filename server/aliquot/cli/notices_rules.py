"""Rules of alerts: shown, changed, and muted for a while."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.choices import choice
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, duration, moment, print_json, table

if TYPE_CHECKING:
    from aliquot.client.generated.notices import NoticeRule

Rule = Annotated[str, typer.Argument(metavar="RULE", help="queue_backlog, long_wait, agent_lost, ...")]


def rules(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List when alerts open; for operators."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.notice_rules()
    _tell(found, as_json=as_json)


def set_rule(
    rule: Rule,
    on: Annotated[bool | None, typer.Option("--on/--off", help="Whether anybody looks.")] = None,
    above: Annotated[int | None, typer.Option(help="The threshold, in the rule's unit.")] = None,
    floor: Annotated[int | None, typer.Option(help="Of failure_rate: so many sessions have to have ended.")] = None,
    for_s: Annotated[int | None, typer.Option("--for", help="Seconds that it has to hold.")] = None,
    severity: Annotated[str | None, typer.Option(help="info, warning or critical.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say when an alert opens; for admins. What is not named stays."""
    from aliquot.client.generated.enums import AlertRule, Severity
    from aliquot.client.generated.notices_inputs import SetNoticeRuleInput

    wanted = SetNoticeRuleInput(
        rule=choice(AlertRule, rule, of="rule"),
        is_on=on,
        threshold=above,
        floor=floor,
        for_s=for_s,
        severity=None if severity is None else choice(Severity, severity, of="severity"),
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        changed = client.set_notice_rule(wanted).rule
    _tell([changed], as_json=as_json)


def mute(
    rule: Rule,
    for_s: Annotated[float, typer.Option("--for", min=0, help="Seconds; 0 ends it.")] = 3600,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let nobody be told of a rule's alerts for a while; for operators. They are listed all the same."""
    from aliquot.client.generated.enums import AlertRule
    from aliquot.client.generated.notices_inputs import MuteNoticeRuleInput

    wanted = MuteNoticeRuleInput(rule=choice(AlertRule, rule, of="rule"), seconds=for_s)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        changed = client.mute_notice_rule(wanted).rule
    _tell([changed], as_json=as_json)


def _tell(found: "Iterable[NoticeRule]", *, as_json: bool) -> None:
    if as_json:
        print_json(list(found))
        return
    rows = table("rule", "", "above", "for", "severity", "muted until")
    for one in found:
        above = f"{one.threshold} {one.unit}" if one.unit else ""
        if one.floor:
            above = f"{above}, of {one.floor} at least"
        is_on = "on" if one.is_on else "off"
        held = duration(one.for_s) if one.for_s else ""
        rows.add_row(*cells(one.rule.value, is_on, above, held, one.severity.value, moment(one.muted_until)))
    console().print(rows)
