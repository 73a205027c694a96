"""How commands that ask a server end; in the README, and in `--help` where it matters.

 0  done
 1  the session that was waited for failed, or was canceled
 2  the command line or a file is wrong, or there is no token; nothing was asked
 3  the server refused: what was asked is impossible, not allowed, or not there
 4  the server cannot be reached or understood, or does not take the token
130  interrupted
"""

from typing import Final

FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
UNREACHABLE: Final = 4
INTERRUPTED: Final = 130
