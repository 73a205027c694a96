"""`aliquot notices`: alerts and their rules, receivers and deliveries, and notifications about your own sessions."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.output import cells, choice, duration, moment, print_json, show_table, table
from aliquot.cli.connection.server import REFUSED, AsJson, AtServer, InCluster, TokenFile, connected, fail, usage
from aliquot.cli.session.options import seconds_of

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.alerts import Delivery, NoticePreferences, NoticeRule
    from aliquot.client.generated.enums import NoticeKind


Rule = Annotated[str, typer.Argument(metavar="RULE", help="queue_backlog, long_wait, agent_lost, ...")]


def rules(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List the alert rules; for operators."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.notice_rules()
    _print_rules(found, as_json=as_json)


def set_rule(
    rule: Rule,
    on: Annotated[bool | None, typer.Option("--on/--off", help="Whether the rule is evaluated.")] = None,
    above: Annotated[
        str | None,
        typer.Option(metavar="THRESHOLD", help="The threshold: a number in the rule's unit, or a duration like 30m."),
    ] = None,
    floor: Annotated[int | None, typer.Option(help="How many sessions a rule compares at least.")] = None,
    for_s: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long it must hold, like 10m; a number is seconds."),
    ] = None,
    severity: Annotated[str | None, typer.Option(help="info, warning or critical.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Change an alert rule; for admins. Options that are left out change nothing."""
    from aliquot.client.generated.alerts import SetNoticeRuleInput
    from aliquot.client.generated.enums import AlertRule, Severity

    wanted = SetNoticeRuleInput(
        rule=choice(AlertRule, rule, of="rule"),
        is_on=on,
        threshold=_threshold(rule, above),
        floor=floor,
        for_s=_whole_seconds(for_s, option="--for"),
        severity=None if severity is None else choice(Severity, severity, of="severity"),
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        changed = client.set_notice_rule(wanted).rule
    _print_rules([changed], as_json=as_json)


def mute(
    rule: Rule,
    for_s: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long, like 2h; a number is seconds, 0 unmutes.")
    ] = "1h",
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Mute the notifications of a rule for a while; for operators. Its alerts are still listed."""
    from aliquot.client.generated.alerts import MuteNoticeRuleInput
    from aliquot.client.generated.enums import AlertRule

    seconds = seconds_of(for_s, option="--for")
    assert seconds is not None
    wanted = MuteNoticeRuleInput(rule=choice(AlertRule, rule, of="rule"), seconds=seconds)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        changed = client.mute_notice_rule(wanted).rule
    _print_rules([changed], as_json=as_json)


def _threshold(rule: str, text: str | None) -> int | None:
    from aliquot.service.alerts.alert_views import UNITS

    if text is None:
        return None
    if UNITS.get(rule) == "seconds":  # type: ignore[call-overload]  # its keys are texts
        return _whole_seconds(text, option="--above")
    if not text.isdecimal():
        usage(f"--above {text}: {rule} takes a whole number")
    return int(text)


def _whole_seconds(text: str | None, *, option: str) -> int | None:
    seconds = seconds_of(text, option=option)
    if seconds is not None and not seconds.is_integer():
        usage(f"{option} {text}: give whole seconds")
    return None if seconds is None else int(seconds)


def _print_rules(found: "Iterable[NoticeRule]", *, as_json: bool) -> None:
    if as_json:
        print_json(list(found))
        return
    rows = table("rule", "state", "above", "for", "severity", "muted until", "opens when")
    for one in found:
        above = duration(one.threshold) if one.unit == "seconds" else f"{one.threshold} {one.unit}" if one.unit else ""
        if one.floor:
            above = f"{above}, of at least {one.floor}"
        is_on = "on" if one.is_on else "off"
        held = duration(one.for_s) if one.for_s else ""
        rows.add_row(
            *cells(one.rule.value, is_on, above, held, one.severity.value, moment(one.muted_until), one.description)
        )
    show_table(rows)


WAIT_S: Final = 30.0
POLL_S: Final = 0.2


def send_test(
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="Its name in the server's settings.")],
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Send a test notification to a receiver and report the outcome; for admins."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = _wait_until_tried(client, client.send_test_notice(receiver).delivery)
    if as_json:
        print_json(found)
    if found.state.value != "sent":
        reason = found.error or f"no attempt within {WAIT_S:g} s"
        advice = "`aliquot notices deliveries` lists all attempts"
        fail(f"{receiver} did not accept the notification: {reason}", advice=advice, code=REFUSED)
    if not as_json:
        print(f"{receiver} accepted the notification")


def deliveries(
    first: Annotated[int, typer.Option(min=1, max=100, help="How many, newest first.")] = 20,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the messages sent to receivers and their outcome; for admins."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = [edge.node for edge in client.deliveries(first=first).edges]
    if as_json:
        print_json(found)
        return
    rows = table("created", "receiver", "state", "attempts", "user", "message", "error")
    for one in found:
        rows.add_row(
            *cells(moment(one.made_at), one.receiver, one.state.value, one.tries, one.user, one.message, one.error)
        )
    show_table(rows)


def _wait_until_tried(client: "BlockingClient", sent: "Delivery") -> "Delivery":
    """The delivery after its first attempt, or as it is after `WAIT_S`."""
    until = time.monotonic() + WAIT_S
    found = sent
    while not found.tries and time.monotonic() < until:
        time.sleep(POLL_S)
        found = next((edge.node for edge in client.deliveries(notice_id=sent.id).edges), found)
    return found


notices: Final = typer.Typer(no_args_is_help=True, help="Show alerts, and configure rules and notifications.")
notices.command("rules")(rules)
notices.command("set")(set_rule)
notices.command("mute")(mute)
notices.command("test")(send_test)
notices.command("deliveries")(deliveries)


@notices.command("list")
def list_alerts(
    every: Annotated[bool, typer.Option("--all", help="Include closed alerts.")] = False,
    first: Annotated[int, typer.Option(min=1, max=100, help="How many, newest first.")] = 50,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List alerts, newest first."""
    from aliquot.client.generated.enums import AlertState

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = [edge.node for edge in client.alerts(state=None if every else AlertState.OPEN, first=first).edges]
    if as_json:
        print_json(found)
    elif not found:
        print("no alert is open" if not every else "there has been no alert yet")
    else:
        rows = table("since", "until", "severity", "rule", "message")
        for one in found:
            style = "red" if one.severity.value == "critical" and one.closed_at is None else ""
            rows.add_row(
                *cells(
                    moment(one.opened_at),
                    moment(one.closed_at),
                    one.severity.value,
                    one.rule.value,
                    one.message,
                    style=style,
                )
            )
        show_table(rows)


@notices.command("me")
def me(
    email: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Your mail address for notifications; '' clears it.")
    ] = None,
    hear: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="A kind of event to be notified of; repeat it to name all, or 'nothing'."),
    ] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show or change which events of your own sessions you are notified of, and at which address."""
    from aliquot.client.generated.alerts import SetNoticePreferencesInput

    wanted = SetNoticePreferencesInput(email=email, notify=None if hear is None else _kinds(hear))
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if email is None and hear is None:
            found = client.notice_preferences()
        else:
            found = client.set_notice_preferences(wanted).preferences
    _print_preferences(found, as_json=as_json)


def _kinds(names: list[str]) -> tuple["NoticeKind", ...]:
    from aliquot.client.generated.enums import NoticeKind
    from aliquot_schema.alerts import OWNERS_HEAR

    known = [kind.value for kind in OWNERS_HEAR] + ["nothing"]
    for name in names:
        if name not in known:
            usage(f"--hear {name}: owners get no notification of this kind; there are {', '.join(known)}")
    if "nothing" in names and len(names) > 1:
        usage("--hear nothing: give no other kind with it")
    return tuple(NoticeKind(name) for name in names if name != "nothing")


def _print_preferences(found: "NoticePreferences", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print(_mail_words(found))
    print(f"you are notified of {', '.join(kind.value for kind in found.notify) or 'nothing'}")


def _mail_words(found: "NoticePreferences") -> str:
    if not found.sends_mail:
        address = f"your address is {found.email}, but " if found.email else ""
        return f"{address}this server sends no mail; an admin can set it up"
    return f"mail goes to {found.email}" if found.email else "you have no mail address; --email sets one"
