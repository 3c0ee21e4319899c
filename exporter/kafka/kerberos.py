"""Kerberos for kafka-python's clients: with a keytab of its own, where theirs know the ticket of the process alone.

    Kerberos   the service's name, as kafka-python takes it, that knows the keytab and who logs in
    _Login     registered as the mechanism GSSAPI; gets a ticket for each login, of a cache in memory

Source: RFC 4752. Needs the package `gssapi`, which only who asks for this has (setup.cfg, `kerberos`).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from exporter.errors import ConfigError

CACHE = "MEMORY:kafka-delta-exporter"


class Kerberos(str):
    """principal, keytab: empty for the one of the process's ticket cache, and for that cache."""

    principal: str
    keytab: str

    def __new__(cls, service: str, principal: str = "", keytab: str = "") -> Kerberos:
        made = super().__new__(cls, service)
        made.principal, made.keytab = principal, keytab
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Kerberos, (str(self), self.principal, self.keytab)

    def credentials(self) -> Any:
        """As gssapi has them; None for those of the process. Raises GSSError."""
        import gssapi

        if not self.principal:
            return None
        name = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal)
        store = {"client_keytab": self.keytab, "ccache": CACHE} if self.keytab else None
        return gssapi.Credentials(name=name, usage="initiate", store=store)


def check_installed() -> None:
    """Check that the package gssapi is there. Raises ConfigError."""
    if find_spec("gssapi") is None:
        hint = "pip install 'kafka-delta-exporter[kerberos]'; it is built with the headers of Kerberos (libkrb5-dev)"
        raise ConfigError("sasl_mechanism GSSAPI needs the package gssapi", hint)


class _Login(SaslMechanismGSSAPI):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        """Raises KafkaConnectionError, which is an outage to clients that run."""
        import gssapi

        login: Kerberos = config["sasl_kerberos_service_name"]
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login}@{config['host']}"
        try:
            name = gssapi.Name(self.auth_id, gssapi.NameType.hostbased_service).canonicalize(gssapi.MechType.kerberos)
            self._client_ctx = gssapi.SecurityContext(name=name, creds=login.credentials(), usage="initiate")
            self._next_token = self._client_ctx.step(None)
        except gssapi.exceptions.GSSError as error:
            raise KafkaConnectionError(" ".join(str(error).split())) from None


register_sasl_mechanism("GSSAPI", _Login, overwrite=True)
