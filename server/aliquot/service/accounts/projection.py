"""Accounts as people see them; the digest of a key is shown to nobody."""

from aliquot.service.people import People, holds
from aliquot.service.projection_terms import moment, moment_or_none
from aliquot_schema.account_views import ApiKeyView, UserView
from aliquot_schema.accounts import ApiKey, User


def user_view(user: User) -> UserView:
    """A user."""
    return UserView(
        name=user.id,
        version=user.version,
        role=user.role,
        unix_name=user.unix_name,
        projects=user.projects,
        disabled=user.disabled,
        created_at=moment(user.created_us),
        changed_at=moment(user.changed_us),
    )


def key_view(key: ApiKey, people: People, *, now_us: int) -> ApiKeyView:
    """A key, without its secret."""
    user = people.users.get(key.user)
    return ApiKeyView(
        id=key.id,
        version=key.version,
        user=key.user,
        name=key.name,
        scope=key.scope,
        created_at=moment(key.created_us),
        expires_at=moment_or_none(key.expires_us),
        revoked_at=moment_or_none(key.revoked_us),
        is_valid=holds(key, now_us=now_us) and user is not None and not user.disabled,
    )
