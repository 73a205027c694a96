"""Settings of OpenID Connect."""

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from aliquot.core.validation.fields import project_names
from aliquot.service.setting_errors import Seconds, wrong
from aliquot_schema.errors import InvalidRequest

RoleName = Literal["viewer", "user", "operator", "admin"]


class OidcSettings(BaseSettings):
    """The part of `aliquot.settings.Settings` on OpenID Connect."""

    oidc_issuer: str | None = Field(
        None, description="Issuer URL of the identity provider, like https://id.example.org; without it, none."
    )
    oidc_audience: str = Field("aliquot", min_length=1, description="The audience (aud) that its tokens must have.")
    oidc_name_claim: str = Field(
        "preferred_username",
        min_length=1,
        description="Claim with the user's name; do not choose one that users can change themselves.",
    )
    oidc_users: Literal["existing", "new"] = Field(
        "existing",
        description="existing: an admin creates users first; new: a user is created at the first valid token.",
    )
    oidc_groups_claim: str = Field(
        "groups", min_length=1, description="Claim that lists groups; may be a path like realm_access.roles."
    )
    oidc_roles: dict[str, RoleName] = Field(
        default_factory=dict, description="Roles by group, the highest one counts; without any, admins assign roles."
    )
    oidc_projects: dict[str, str] = Field(
        default_factory=dict, description="Projects by group; without any, admins assign projects."
    )
    oidc_default_role: Literal["nobody", "viewer", "user", "operator", "admin"] = Field(
        "viewer", description="Role of users in none of these groups; `nobody` denies them access."
    )
    oidc_unix_claim: str | None = Field(None, description="Claim with the Unix account of a user who has none yet.")
    oidc_client_id: str | None = Field(
        None, min_length=1, description="The provider's client for sign-in in the browser; by default oidc-audience."
    )
    oidc_client_secret_file: Path | None = Field(
        None, description="File with the secret of that client; without it, a public client that uses PKCE alone."
    )
    oidc_sign_in_s: Seconds = Field(
        12 * 3600.0, ge=60, le=30 * 86400, description="How long a sign-in with the provider lasts in the browser."
    )
    oidc_leeway_s: Seconds = Field(
        30.0, ge=0, le=300, description="Allowed difference between the provider's clock and this one."
    )

    @field_validator("oidc_issuer")
    @classmethod
    def _is_safe(cls, issuer: str | None) -> str | None:
        if issuer is not None and not is_safe(issuer):
            raise wrong("give the provider's URL, https://...; plain http is allowed only for this machine")
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
    """Whether a URL is protected against interception: https, or http to this machine."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return False
    is_here = parts.hostname in ("127.0.0.1", "::1", "localhost")
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_here))
