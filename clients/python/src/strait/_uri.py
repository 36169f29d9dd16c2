"""URIs of the scheme ``strait``: a gateway, one of its stores, and a path in it."""

import re
from dataclasses import dataclass

from strait import errors

SCHEME = "strait://"
DEFAULT_PORT = 9090
MAX_PORT = 65_535
# The longest name that stores take, as in POSIX (NAME_MAX).
MAX_NAME_BYTES = 255

_BARE = "a store's name follows the @, as in /@lab; a directory called @ is /@@"
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<name>[^\s:?#\[\]]+))(?::(?P<port>[0-9]{0,5}))?")


@dataclass(frozen=True, slots=True)
class Uri:
    """The parts of ``strait://host:port/@store/path``.

    Nothing is decoded: a percent sign stands for itself.
    """

    host: str
    port: int
    #: None for the gateway's default store.
    store: str | None
    #: Absolute in the store.
    path: str

    @classmethod
    def parse(cls, text: str) -> "Uri":
        """The parts of `text`; `InvalidArgument` if it is no such URI.

        A first component ``@NAME`` names a store. One that begins with ``@@``
        is a directory of the default store, whose name has one ``@`` less.
        """
        if not text.startswith(SCHEME):
            # With an @, it may hold a password.
            raise _wrong(f"{'it' if '@' in text else text} doesn't begin with {SCHEME}")
        authority, _, rest = text.removeprefix(SCHEME).partition("/")
        host, port = _host_and_port(authority)
        names = [name for name in rest.split("/") if name]
        store = None
        if names and names[0].startswith("@@"):
            names[0] = names[0][1:]
        elif names and names[0].startswith("@"):
            store = names.pop(0)[1:]
            if not store:
                raise _wrong(f"{text!r}: {_BARE}")
        for name in names if store is None else [store, *names]:
            _check_name(name, text)
        return cls(host, port, store, "/" + "/".join(names))

    @property
    def gateway(self) -> str:
        """The address of the gateway and store, for `connect`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}{host}:{self.port}/" + ("" if self.store is None else f"@{self.store}")


def parse_address(address: str) -> Uri:
    """The parts of a gateway's address, whose scheme may be left out and which has no path."""
    uri = Uri.parse(address if "://" in address else SCHEME + address)
    if uri.path != "/":
        raise _wrong(f"an address ends with the gateway or its store, and has no path: {address}")
    return uri


def _host_and_port(authority: str) -> tuple[str, int]:
    if "@" in authority:
        # The message doesn't repeat it: it may hold a password.
        raise errors.InvalidArgument("an address names no user; connect takes user and password")
    parts = _AUTHORITY.fullmatch(authority)
    port = int((parts and parts["port"]) or DEFAULT_PORT)
    if parts is None or not 1 <= port <= MAX_PORT:
        raise _wrong(f"{authority!r} is no HOST:PORT")
    return parts["v6"] or parts["name"], port


def _check_name(name: str, text: str) -> None:
    too_long = len(name.encode(errors="surrogatepass")) > MAX_NAME_BYTES
    if name in (".", "..") or "\0" in name or too_long:
        raise _wrong(
            f"{text!r} has a name that is . or .., holds a NUL byte, "
            f"or is longer than {MAX_NAME_BYTES} bytes"
        )


def _wrong(why: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"not the address of a gateway, strait://host:port/@store: {why}")
