"""Where a page is served, and by which names a request may call its server.

    Address()                                          this machine only, without a token
    Address("0.0.0.0", token=...)                      every address of this machine, by its own names and addresses
    Address("0.0.0.0", token=..., names=("driver.example.org",))    and by this name

The name in a request's `Host` must be one of `allowed`. Otherwise a foreign web site could have its own name point
here, and its scripts would read the page in the browser of somebody who may.

Guarantee: an address that other machines can reach has a token, or there is no Address.
Not here: who is let in (server.py).
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote

from evenjoin.errors import EvenJoinError

PORT = 5007
LOCAL = ("localhost", "127.0.0.1", "[::1]")
ELSEWHERE = ("192.0.2.1", 9)
"""An address that nobody has (RFC 5737). Asked how it would get there, a machine tells its own address; nothing is
sent."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page is served: an address, a port (0: any free one), the token that it asks for ("": none), and names
    besides its own by which it may be called."""

    host: str = "127.0.0.1"
    port: int = PORT
    token: str = ""
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.token and not is_loopback(self.host):
            raise EvenJoinError(
                f"{self.host} can be reached from other machines: give a token too, or let the page be on 127.0.0.1"
            )
        if self.token and (len(self.token) < 8 or not self.token.isascii() or not self.token.isprintable()):
            raise EvenJoinError("a token has at least 8 characters, all of them printable ASCII")

    @property
    def allowed(self) -> tuple[str, ...]:
        """The names by which a request may call this server, in small letters, the best to give to others first."""
        if is_any(self.host):
            own: tuple[str, ...] = (*own_names(), *LOCAL)
        else:
            own = (_bracketed(self.host), *(LOCAL if is_loopback(self.host) else ()))
        return tuple(dict.fromkeys(name.lower() for name in (*self.names, *own)))

    @property
    def url(self) -> str:
        """What to open in a browser: by the first name that was given, or by the machine's own address."""
        token = f"?token={quote(self.token)}" if self.token else ""
        return f"http://{self.allowed[0]}:{self.port}/{token}"


@cache
def own_names() -> tuple[str, ...]:
    """This machine's addresses as others see them, and its names."""
    name, found = socket.gethostname(), list[str]()
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(ELSEWHERE)
        found.append(str(sock.getsockname()[0]))
    with suppress(OSError):
        found += [str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(name, None)]
    return tuple(dict.fromkeys([*(_bracketed(one) for one in found if not is_loopback(one)), name, socket.getfqdn()]))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_any(host: str) -> bool:
    """Whether an address stands for all of this machine's."""
    return host in ("", "0.0.0.0", "::")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
