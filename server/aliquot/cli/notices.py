"""`aliquot notices`: what is open, when alerts open, where they go, and where one hears of one's own sessions."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from aliquot.cli.connection.asking import connected, usage
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, moment, print_json, table
from aliquot.cli.notices_rules import mute, rules, set_rule
from aliquot.cli.notices_trial import deliveries, trial

if TYPE_CHECKING:
    from aliquot.client.generated.enums import NoticeKind
    from aliquot.client.generated.notices import NoticePreferences

notices: Final = typer.Typer(no_args_is_help=True, help="Alerts, and who is told of what happens.")
notices.command("rules")(rules)
notices.command("set")(set_rule)
notices.command("mute")(mute)
notices.command("test")(trial)
notices.command("deliveries")(deliveries)


@notices.command("list")
def list_alerts(
    every: Annotated[bool, typer.Option("--all", help="Those that are over, too.")] = False,
    first: Annotated[int, typer.Option(min=1, max=100, help="So many, the newest.")] = 50,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List alerts, the newest first."""
    from aliquot.client.generated.enums import AlertState

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = [edge.node for edge in client.alerts(state=None if every else AlertState.OPEN, first=first).edges]
    if as_json:
        print_json(found)
    elif not found:
        print("no alert is open" if not every else "there has been no alert")
    else:
        rows = table("since", "until", "severity", "rule", "what")
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
        console().print(rows)


@notices.command("me")
def me(
    email: Annotated[str | None, typer.Option(help="Where mail goes that is for you; '' is nowhere.")] = None,
    hear: Annotated[
        list[str] | None, typer.Option(help="What you want to hear of; all of it is named, 'nothing' is none.")
    ] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show, or say, where you hear of your own sessions, and what of."""
    from aliquot.client.generated.notices_inputs import SetNoticePreferencesInput

    wanted = SetNoticePreferencesInput(email=email, notify=None if hear is None else _kinds(hear))
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if email is None and hear is None:
            found = client.notice_preferences()
        else:
            found = client.set_notice_preferences(wanted).preferences
    _tell(found, as_json=as_json)


def _kinds(names: list[str]) -> tuple["NoticeKind", ...]:
    from aliquot.client.generated.enums import NoticeKind
    from aliquot_schema.notices import OWNERS_HEAR

    known = [kind.value for kind in OWNERS_HEAR] + ["nothing"]
    for name in names:
        if name not in known:
            usage(f"--hear: owners are not told of {name}; there are {', '.join(known)}")
    return tuple(NoticeKind(name) for name in names if name != "nothing")


def _tell(found: "NoticePreferences", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print(f"mail goes to {found.email}" if found.email else "mail goes nowhere; `aliquot notices me --email ADDRESS`")
    print(f"you hear of {', '.join(kind.value for kind in found.notify) or 'nothing'}")
