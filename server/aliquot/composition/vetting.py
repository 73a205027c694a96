"""Vetting: where a server keeps secrets and with which keys, and what it has to ask about new sessions."""

from dataclasses import dataclass
from pathlib import Path

from aliquot.errors import ConfigurationError
from aliquot.service.command_checks.checks import CommandChecks
from aliquot.service.command_checks.rules import CommandRules
from aliquot.service.use_cases import UseCases
from aliquot.settings import Settings
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.secrets.secrets import DatabaseSecrets
from aliquot.store.store import DatabaseStore


@dataclass(frozen=True, slots=True, kw_only=True)
class VettingPlan:
    """What the settings say of it."""

    key_file: Path
    commands: CommandRules


def vetting_of(settings: Settings) -> VettingPlan:
    """What the settings say of it."""
    return VettingPlan(key_file=settings.secret_keys(settings.data_folder), commands=settings.command_rules)


async def open_vetting(cases: UseCases, store: DatabaseStore, plan: VettingPlan) -> None:
    """Let people store secrets and orders have them, and see to it that new sessions are checked.

    Raises:
        ConfigurationError: what is stored cannot be decrypted with the keys in the file.
    """
    secrets = DatabaseSecrets(store, keys=SecretKeys(plan.key_file))
    wrong = await secrets.missing_key()
    if wrong is not None:
        raise ConfigurationError(f"secrets-key-file: {wrong}")
    cases.vault.store = secrets
    if not plan.commands.is_empty:
        cases.vetting.commands = CommandChecks(plan.commands)
