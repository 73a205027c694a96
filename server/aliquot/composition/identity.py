"""The identity provider whose tokens let people in, where there is one."""

from aliquot.api.authentication import Door
from aliquot.service.use_cases import UseCases
from aliquot.settings import Settings
from aliquot_schema.ids import UserId


def door_of(settings: Settings, cases: UseCases, *, owner: UserId) -> Door | None:
    """How its people come in; None without one.

    Args:
        owner: who has the server's own token.
    """
    if settings.oidc_issuer is None:
        return None
    # Imported here: a server without a provider starts without its cryptography.
    from aliquot.api.oidc.oidc_door import OidcDoor
    from aliquot.api.oidc.provider_keys import ProviderKeys
    from aliquot.api.oidc.tokens import Tokens
    from aliquot.service.accounts.federation import Federation

    tokens = Tokens(
        ProviderKeys(settings.oidc_issuer),
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        leeway_s=settings.oidc_leeway_s,
    )
    people = cases.state.people
    federation = Federation(
        users=cases.accounts,
        people=people,
        journal=cases.journal,
        clock=cases.clock,
        is_open=settings.oidc_users == "new",
        owner=owner,
    )
    return OidcDoor(tokens, terms=settings, federation=federation, people=people)
