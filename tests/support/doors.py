"""A broker with two doors: one for those that write, which asks for nothing, and one with a login, by which we come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exporter.local.broker import Broker
from exporter.local.server import free_ports
from tests.support.token_server import AUDIENCE, ISSUER

LOOPBACK = "127.0.0.1"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer{}"


class Doors(Broker):
    """protocol: of the door LOGIN. properties: the broker's. java: its JVM's. host: what the door is called."""

    def __init__(
        self, protocol: str, properties: Mapping[str, str], java: Mapping[str, str] | None = None, host: str = LOOPBACK
    ) -> None:
        super().__init__(properties=properties)
        (port,) = free_ports(1)
        self.login, self._door, self._java = f"{host}:{port}", protocol, dict(java or {})
        self._at = f"{LOOPBACK}:{port}"

    def _java_command(self) -> list[str]:
        java, *rest = super()._java_command()
        return [java, *(f"-D{name}={value}" for name, value in self._java.items()), *rest]

    def _properties(self) -> dict[str, str]:
        own = super()._properties()
        doors = {
            "listeners": f"{own['listeners']},LOGIN://{self._at}",
            "advertised.listeners": f"{own['advertised.listeners']},LOGIN://{self.login}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:{self._door}",
        }
        return own | doors


def client_lines(**given: str | None) -> str:
    """The [kafka_client] table; None leaves a line out."""
    return "\n".join(f"{name} = '{value}'" for name, value in given.items() if value is not None)


def oauth_lines(url: str, secret: str) -> str:
    """The same, of a client that asks a server for its tokens."""
    return client_lines(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_oauth_token_url=url,
        sasl_oauth_client_id="exporter", sasl_oauth_client_secret=secret,
    )  # fmt: skip


def oauth_broker(jwks: Path, reauth_ms: int = 0, protocol: str = "SASL_PLAINTEXT") -> Doors:
    """One that takes tokens that a Signer has signed. reauth_ms: how long a session lasts; 0: for ever."""
    properties = {
        "listener.name.login.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.login.oauthbearer.sasl.jaas.config": f"{OAUTH.format('LoginModule')} required;",
        "listener.name.login.oauthbearer.sasl.server.callback.handler.class": OAUTH.format("ValidatorCallbackHandler"),
        "listener.name.login.oauthbearer.connections.max.reauth.ms": str(reauth_ms),
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        # What it has by default (seen with 4.1.1) looks at no signature, no audience and no end.
        "sasl.oauthbearer.jwt.validator.class": OAUTH.replace("OAuthBearer{}", "BrokerJwtValidator"),
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.{}"
    return Doors(protocol, properties, {allowed.format("urls"): jwks.as_uri(), allowed.format("files"): str(jwks)})
