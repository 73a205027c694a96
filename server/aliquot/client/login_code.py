"""One-time address that signs a browser in: requested from a server with a token or key."""

import httpx
import msgspec

from aliquot.client.config import Place
from aliquot.client.errors import ServerUnreachable, UnexpectedAnswer
from aliquot.client.requests import check_address, is_loopback, trusting
from aliquot_schema.errors import Unauthenticated

TIMEOUT_S = 10.0


class _LoginCode(msgspec.Struct, frozen=True):
    path: str


def login_address(place: Place) -> str:
    """A URL that signs one browser in, once, within 15 minutes, as the holder of the place's token.

    Raises:
        ServerUnreachable, UnexpectedAnswer, NoPlace: as for `Client`.
        Unauthenticated: the token is not accepted.
    """
    check_address(place.url)
    verify = trusting(place.ca_file) if place.ca_file else True
    url = place.url.rstrip("/")
    headers = {"authorization": f"Bearer {place.token}"}
    try:
        with httpx.Client(verify=verify, timeout=TIMEOUT_S, trust_env=not is_loopback(url)) as client:
            response = client.post(f"{url}/login-code", headers=headers)
    except httpx.TransportError as error:
        raise ServerUnreachable(f"{url}: {str(error) or type(error).__name__}") from error
    if response.status_code == httpx.codes.UNAUTHORIZED:
        raise Unauthenticated("the server does not accept this token or key")
    try:
        return f"{url}{msgspec.json.decode(response.content, type=_LoginCode).path}"
    except msgspec.DecodeError as error:
        raise UnexpectedAnswer(response.status_code, response.text) from error
