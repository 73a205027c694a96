"""Settings of the identity provider whose tokens let people in."""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from aliquot.service.accounts.names import project_names
from aliquot.service.setting_errors import wrong
from aliquot_schema.errors import InvalidRequest

RoleName = Literal["viewer", "user", "operator", "admin"]


class OidcSettings(BaseSettings):
    """A part of `aliquot.settings.Settings`."""

    oidc_issuer: str | None = Field(
        None, description="The identity provider, as it calls itself, like https://id.example.org; without it, none."
    )
    oidc_audience: str = Field("aliquot", min_length=1, description="For whom its tokens have to be made out.")
    oidc_name_claim: str = Field(
        "preferred_username",
        min_length=1,
        description="What of a token names the user; one that people can change themselves is of no use.",
    )
    oidc_users: Literal["existing", "new"] = Field(
        "existing", description="Whether an admin has to make a user before, or anybody comes in who has a token."
    )
    oidc_groups_claim: str = Field(
        "groups", min_length=1, description="What of a token lists groups; a path like realm_access.roles, too."
    )
    oidc_roles: dict[str, RoleName] = Field(
        default_factory=dict, description="Roles by group, the highest counts; without any, admins give roles."
    )
    oidc_projects: dict[str, str] = Field(
        default_factory=dict, description="Projects by group; without any, admins say who is in which."
    )
    oidc_default_role: Literal["nobody", "viewer", "user", "operator", "admin"] = Field(
        "viewer", description="The role of those who are in no such group; nobody keeps them out."
    )
    oidc_unix_claim: str | None = Field(
        None, description="What of a token names the Unix account of a user who has none yet."
    )
    oidc_leeway_s: float = Field(30.0, ge=0, le=300, description="By how much the provider's clock may be off.")

    @field_validator("oidc_issuer")
    @classmethod
    def _is_safe(cls, issuer: str | None) -> str | None:
        if issuer is not None and not is_safe(issuer):
            raise wrong("give the address of the provider, https://...; plain http is for this machine alone")
        return issuer

    @field_validator("oidc_projects")
    @classmethod
    def _are_projects(cls, projects: dict[str, str]) -> dict[str, str]:
        for name in projects.values():
            try:
                project_names([name])
            except InvalidRequest as error:
                raise wrong(error.message) from None
        return projects


def is_safe(address: str) -> bool:
    """Whether nobody between here and there can answer in its place."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return False
    is_here = parts.hostname in ("127.0.0.1", "::1", "localhost")
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_here))
