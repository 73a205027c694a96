"""Vetting: what has to be asked of others before a new session is committed."""

from aliquot.service.command_checks.checks import CommandChecks
from aliquot.service.secrets.vault import Vault
from aliquot_schema.sessions import Session


class Vetting:
    """The secrets that a session asks for have to be there, and an operator's check has to take its command."""

    commands: CommandChecks | None = None
    """None: every command is taken."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def check(self, session: Session) -> None:
        """Refuse what is refused by one of them.

        Raises:
            InvalidRequest, Unavailable: see `Vault.check` and `CommandChecks.check`.
        """
        await self._vault.check(session.owner, session.spec.secrets)
        if self.commands is not None:
            await self.commands.check(session)
