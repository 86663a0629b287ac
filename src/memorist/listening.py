"""Addresses that servers listen on, and what may not be served without a token."""

import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from memorist.errors import ConfigError, InvalidInput

_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class ListenAddress(Struct, frozen=True):
    """A host and a port to listen on."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Return the address of HOST:PORT; a port alone is one of this machine."""
        host, _, port = text.rpartition(":")
        if not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise InvalidInput(f"{text!r} is not HOST:PORT; write it like 127.0.0.1:8765, or just 8765")
        host = host.removeprefix("[").removesuffix("]").lower() or "127.0.0.1"
        with suppress(ValueError):  # a name
            host = str(ipaddress.ip_address(host))  # in the form that clients use
        return cls(host, int(port))

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """True if it stands for every address of this machine."""
        return self.host in ("0.0.0.0", "::")

    @property
    def url_host(self) -> str:
        """The host as it is written in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def host_names(self, hosts: Sequence[str]) -> list[str]:
        """Return the names that clients may call it by; `hosts` are those that the user allows."""
        own = () if self.is_wildcard else (self.url_host, *(_LOOPBACK_HOSTS if self.is_local else ()))
        return [*own, *(host.lower() for host in hosts)]  # clients send them in lower case

    def refuse_unsafe(self, token: str | None, hosts: Sequence[str]) -> None:
        """Raise ConfigError if other machines could reach it without a token, or by names that nobody has said."""
        if self.is_local and not hosts:
            return
        if token is None:
            raise ConfigError(
                f"{self.host} can be reached from other machines, or by other names, so a token is needed: set "
                "MEMORIST_HTTP_TOKEN, or http_token in your own config, or listen on 127.0.0.1"
            )
        if self.is_wildcard and not hosts:
            raise ConfigError(
                f"{self.host} listens on every address of this machine: say which host names clients use, with "
                "--allow-host NAME"
            )

    def listen(self) -> socket.socket:
        """Return a socket that listens there."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listener = socket.create_server((self.host, self.port), family=family)
        except OSError as exc:
            raise ConfigError(f"cannot listen on {self.url_host}:{self.port}: {exc.strerror or exc}") from exc
        # Connections have it from here, as asyncio sets it only for listeners of its own: else the second packet of an
        # answer waits 40 ms for the client to confirm the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
