"""Claims: what a token of the provider says of somebody, in the terms of this server's settings."""

from collections.abc import Mapping

from aliquot.api.oidc.oidc_settings import OidcSettings
from aliquot.service.accounts.federation import Identity
from aliquot_schema.errors import Unauthenticated
from aliquot_schema.roles import Role

Claims = Mapping[str, object]


def identity_of(claims: Claims, terms: OidcSettings) -> Identity:
    """Who shows a token that holds.

    Raises:
        Unauthenticated: it does not say what it has to.
    """
    groups = _groups(claims, terms.oidc_groups_claim)
    found = [Role[role.upper()] for group, role in terms.oidc_roles.items() if group in groups]
    issued = claims.get("iat")
    return Identity(
        subject=f"{claims['iss']}#{claims['sub']}",
        name=_name(claims, terms.oidc_name_claim),
        role=max(found, default=_default_role(terms)),
        has_role=bool(terms.oidc_roles),
        projects=_projects(groups, terms.oidc_projects) if terms.oidc_projects else None,
        unix_name=_text(claims, terms.oidc_unix_claim) if terms.oidc_unix_claim else None,
        issued_us=int(issued * 1_000_000) if isinstance(issued, int | float) else 0,
    )


def _default_role(terms: OidcSettings) -> Role | None:
    return None if terms.oidc_default_role == "nobody" else Role[terms.oidc_default_role.upper()]


def _name(claims: Claims, claim: str) -> str:
    name = _text(claims, claim)
    if name is None:
        known = ", ".join(sorted(key[:40] for key in claims)[:32])
        raise Unauthenticated(f"The token has no {claim}, which is to name the user; it has {known}.")
    if claim == "email" and claims.get("email_verified") is not True:
        raise Unauthenticated("The provider does not say that the token's email was verified.")
    return name


def _projects(groups: frozenset[str], projects: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted({project for group, project in projects.items() if group in groups}))


def _groups(claims: Claims, claim: str) -> frozenset[str]:
    found = _found(claims, claim)
    return frozenset(item for item in found if isinstance(item, str)) if isinstance(found, list) else frozenset()


def _text(claims: Claims, claim: str) -> str | None:
    found = _found(claims, claim)
    return found if isinstance(found, str) and found else None


def _found(claims: Claims, claim: str) -> object:
    """By its name, which may hold dots, or else by its path."""
    if claim in claims:
        return claims[claim]
    found: object = claims
    for part in claim.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
