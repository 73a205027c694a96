"""Vetting: what has to be asked of others before new sessions are committed."""

from collections.abc import Sequence

from aliquot.service.batches import Told, telling
from aliquot.service.command_checks.checks import CommandChecks
from aliquot.service.secrets.vault import Vault
from aliquot_schema.ids import UserId
from aliquot_schema.secrets import SecretUse
from aliquot_schema.sessions import Session


class Vetting:
    """The secrets that a session asks for have to be there, and an operator's check has to take its command."""

    commands: CommandChecks | None = None
    """None: every command is taken."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def check(self, sessions: Sequence[Session], *, told: Told) -> None:
        """Refuse what is refused by one of them.

        Raises:
            InvalidRequest, Unavailable: see `Vault.check` and `CommandChecks.check`.
        """
        asked: dict[tuple[UserId, tuple[SecretUse, ...]], Session] = {}
        for session in sessions:
            if session.spec.secrets:
                asked.setdefault((session.owner, session.spec.secrets), session)
        for (owner, uses), session in asked.items():
            with telling(told, session):
                await self._vault.check(owner, uses)
        if self.commands is not None:
            await self.commands.check(*sessions, told=told)
