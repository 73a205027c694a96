"""Why a connection did not come about, in words that say what to do."""

import errno
import socket
import ssl
from typing import Final

from websockets.exceptions import InvalidMessage

from aliquot.execution.remote.server_address import ServerAddress

_CERTIFICATE: Final = {
    9: "its certificate is not valid yet; compare the clocks of both machines",
    10: "its certificate has expired; renew it, the server takes up the new files by itself",
    18: "its certificate is signed by itself; give it with --ca-file if it is the right one",
    19: "its certificate leads to an authority that is not trusted here; give that one with --ca-file",
    20: "its certificate leads to an authority that is not trusted here; give that one with --ca-file",
    21: "its certificate leads to no authority that is trusted here; give that one with --ca-file",
    62: "its certificate is for another name; dial the name that it is for",
    64: "its certificate is for another address; dial the name or address that it is for",
}
"""By the number of X509_verify_cert_error(3)."""


def connection_words(error: Exception, address: ServerAddress) -> str:
    """What went wrong while the server was dialled."""
    match error:
        case ssl.SSLCertVerificationError(verify_code=code):
            return f"{_CERTIFICATE.get(code, 'its certificate is not accepted')} ({error.verify_message})"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            return "what answers there does not speak TLS; dial it with http://, or start it with --tls-certificate"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or error}"
        case socket.gaierror():
            return f"there is no host of that name ({error.strerror})"
        case TimeoutError():
            return "no answer; look at the address and at firewalls"
        case ConnectionRefusedError() | OSError(errno=errno.ECONNREFUSED):
            return "nobody listens there; look at the port, and whether the server runs"
        case InvalidMessage() | ConnectionResetError() if address.tls is None:
            return "it closed the connection without a word; does it speak TLS? then dial it with https://"
    return str(error) or type(error).__name__
