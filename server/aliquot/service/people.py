"""People: who may come in now, by which key, and as what. Follows the log, and so do all servers."""

from dataclasses import dataclass

from aliquot.service.key_texts import is_secret, parts
from aliquot_schema.accounts import ApiKey, User
from aliquot_schema.ids import KeyId, ProjectId, UserId
from aliquot_schema.roles import ROLE_MAX, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Somebody who has shown a key that holds, or the server's own token."""

    user: UserId
    role: Role
    """The user's own, or the highest that the key's scope allows."""
    projects: tuple[ProjectId, ...] = ()
    key_id: KeyId | None = None
    """None = the server's own token."""
    expires_us: int | None = None


class People:
    """Users and their keys."""

    def __init__(self) -> None:
        self.users: dict[UserId, User] = {}
        self.keys: dict[KeyId, ApiKey] = {}
        self.subjects: dict[str, UserId] = {}
        """By who they are at the identity provider."""

    def put_user(self, user: User) -> None:
        """What is true of a user from now on."""
        known = self.users.get(user.id)
        if known is not None and known.subject is not None and known.subject != user.subject:
            self.subjects.pop(known.subject, None)
        self.users[user.id] = user
        if user.subject is not None:
            self.subjects[user.subject] = user.id

    def known_as(self, subject: str) -> User | None:
        """Who is told so by the identity provider."""
        name = self.subjects.get(subject)
        return None if name is None else self.users.get(name)

    def is_shut_out(self, name: UserId) -> bool:
        """Whether somebody is known, and may not come in any more."""
        user = self.users.get(name)
        return user is not None and user.disabled

    def put_key(self, key: ApiKey) -> None:
        """What is true of a key from now on."""
        self.keys[key.id] = key

    def shown(self, text: str, *, now_us: int) -> Bearer | None:
        """Who shows this text; None when it is no key, or one that does not hold."""
        found = parts(text)
        key = None if found is None else self.keys.get(found[0])
        if found is None or key is None or not is_secret(found[1], digest=key.digest):
            return None
        return self.bearer(key.id, now_us=now_us)

    def bearer(self, key_id: KeyId, *, now_us: int) -> Bearer | None:
        """Who has a key; None when there is none of this id, or it does not hold any more."""
        key = self.keys.get(key_id)
        user = None if key is None else self.users.get(key.user)
        if key is None or user is None or user.disabled or not holds(key, now_us=now_us):
            return None
        return Bearer(
            user=user.id,
            role=min(user.role, ROLE_MAX[key.scope]),
            projects=user.projects,
            key_id=key.id,
            expires_us=key.expires_us,
        )


def holds(key: ApiKey, *, now_us: int) -> bool:
    """Whether a key was neither revoked nor is too old; its user may be disabled."""
    return key.revoked_us is None and (key.expires_us is None or now_us < key.expires_us)
