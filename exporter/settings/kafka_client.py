"""[kafka_client]: how each connection to Kafka is kept, and how it is logged in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from exporter.settings.table import Table, revealed

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]
OWN_SETTINGS = {
    "PLAIN": "sasl_plain_",
    "SCRAM-SHA-256": "sasl_plain_",
    "SCRAM-SHA-512": "sasl_plain_",
    "OAUTHBEARER": "sasl_oauth_",
    "AWS_MSK_IAM": "sasl_aws_",
    "GSSAPI": "sasl_kerberos_",
}
"""Mechanism -> how the names of the settings begin that are for it."""
BY_TOKEN = frozenset({"OAUTHBEARER", "AWS_MSK_IAM"})
"""Mechanisms that a token does for."""
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class KafkaClient(Table):
    """[kafka_client]: security of every connection to Kafka, kafka-python's and Spark's, in PEM files only."""

    client_rack: str | None = Field(default=None, examples=["eu-west-1a"])
    """Rack of the task, as the brokers' `broker.rack`: records are read from the nearest replica, where the brokers
    select replicas so."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Encryption (SSL) and login (SASL) of the connections to Kafka."""
    ssl_cafile: Path | None = Field(default=None, examples=["ca.pem"])
    """PEM file of the authorities that sign the brokers' certificates; without it those of the system (Python) and of
    the JVM (Spark)."""
    ssl_certfile: Path | None = Field(default=None, examples=["client.pem"])
    """PEM file of the client's certificate chain, and of its PKCS#8 key without `ssl_keyfile`."""
    ssl_keyfile: Path | None = Field(default=None, examples=["client-key.pem"])
    """PEM file of the client's PKCS#8 key, if it is not in ssl_certfile."""
    ssl_password: SecretStr | None = Field(default=None, examples=["secret"])
    """Password of the encrypted key."""
    ssl_password_file: Path | None = Field(default=None, examples=["ssl-password"])
    """File with that password alone in it, instead."""
    ssl_check_hostname: bool = True
    """Whether the name in the broker's certificate must be its host name."""
    sasl_mechanism: Mechanism | None = Field(default=None, examples=["SCRAM-SHA-512"])
    """How the client proves who it is."""
    sasl_plain_username: str | None = Field(default=None, examples=["exporter"])
    """User name for PLAIN and SCRAM."""
    sasl_plain_password: SecretStr | None = Field(default=None, examples=["secret"])
    """Password for PLAIN and SCRAM."""
    sasl_plain_password_file: Path | None = Field(default=None, examples=["sasl-plain-password"])
    """File with that password alone in it, instead."""
    sasl_oauth_token_url: str | None = Field(default=None, examples=["https://login.example.com/oauth2/token"])
    """Token endpoint of the authorization server, for OAUTHBEARER with a client's credentials."""
    sasl_oauth_client_id: str | None = Field(default=None, examples=["exporter"])
    """Name of the client at the authorization server."""
    sasl_oauth_client_secret: SecretStr | None = Field(default=None, examples=["secret"])
    """Secret of that client."""
    sasl_oauth_client_secret_file: Path | None = Field(default=None, examples=["sasl-oauth-client-secret"])
    """File with that secret alone in it, instead."""
    sasl_oauth_scope: str | None = Field(default=None, examples=["kafka"])
    """Scopes to ask for, separated by spaces."""
    sasl_oauth_audience: str | None = Field(default=None, examples=["kafka"])
    """Audience to ask for, where the server wants it."""
    sasl_oauth_cafile: Path | None = Field(default=None, examples=["ca.pem"])
    """PEM file of the authorities that sign the certificate of the token endpoint; without it those of the system."""
    sasl_oauth_function: str | None = Field(default=None, examples=["our_tokens:kafka"])
    """Function, as package.module:function, that returns a token and when it ends, instead of a token endpoint."""
    sasl_aws_region: str | None = Field(default=None, examples=["eu-west-1"])
    """Region of the MSK cluster, for AWS_MSK_IAM; without it the one in the brokers' names, or that of AWS's
    settings."""
    sasl_kerberos_service_name: str = "kafka"
    """First part of the brokers' principals, for GSSAPI (Kerberos)."""
    sasl_kerberos_principal: str | None = Field(default=None, examples=["exporter@EXAMPLE.COM"])
    """Who logs in; without it whose tickets are in the cache."""
    sasl_kerberos_keytab: Path | None = Field(default=None, examples=["exporter.keytab"])
    """File with the keys of that principal; without it tickets are those of the cache."""

    @property
    def tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def key_apart(self) -> Path | None:
        """The file of the client's key, if it is one of its own."""
        return self.ssl_keyfile if self.ssl_keyfile != self.ssl_certfile else None

    @property
    def sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def by_token(self) -> bool:
        """Whether the login is by a token that is renewed."""
        return self.sasl and self.sasl_mechanism in BY_TOKEN

    @model_validator(mode="after")
    def _agree(self) -> KafkaClient:
        """A setting that the protocol ignores would promise a safety that is not there."""
        for prefix, used in (("ssl_", self.tls), ("sasl_", self.sasl)):
            idle = sorted(name for name in self.model_fields_set if name.startswith(prefix))
            if idle and not used:
                raise ValueError(f"{idle[0]} has no effect with security_protocol = {self.security_protocol!r}")
        if self.ssl_certfile is None and (self.ssl_keyfile or self.ssl_password):
            raise ValueError("ssl_keyfile and ssl_password need ssl_certfile")
        if self.sasl:
            self._check_login()
        return self

    def _check_login(self) -> None:
        own = OWN_SETTINGS.get(self.sasl_mechanism or "", "sasl_plain_")
        given = {name for name in self.model_fields_set if name.startswith("sasl_")} - {"sasl_mechanism"}
        if idle := sorted(name for name in given if not name.startswith(own)):
            raise ValueError(f"{idle[0]} has no effect with sasl_mechanism = {self.sasl_mechanism!r}")
        if self.sasl_mechanism == "AWS_MSK_IAM":
            if not self.tls:
                raise ValueError("AWS_MSK_IAM needs security_protocol = 'SASL_SSL'")
        elif self.by_token:
            self._check_tokens()
        elif self.sasl_mechanism == "GSSAPI":
            if self.sasl_kerberos_keytab and not self.sasl_kerberos_principal:
                raise ValueError("sasl_kerberos_keytab needs sasl_kerberos_principal")
        elif not all((self.sasl_mechanism, self.sasl_plain_username, self.sasl_plain_password)):
            raise ValueError("SASL needs sasl_mechanism, sasl_plain_username and sasl_plain_password")
        for text in (self.sasl_plain_username, revealed(self.sasl_plain_password)):
            if _CONTROL.search(text or ""):
                raise ValueError("sasl_plain_username or sasl_plain_password holds a control character")

    def _check_tokens(self) -> None:
        credentials = (self.sasl_oauth_token_url, self.sasl_oauth_client_id, self.sasl_oauth_client_secret)
        if self.sasl_oauth_function is not None:
            if len({name for name in self.model_fields_set if name.startswith("sasl_oauth_")}) > 1:
                raise ValueError("sasl_oauth_function gives the tokens: there is no other setting of OAUTHBEARER then")
            if not _FUNCTION.fullmatch(self.sasl_oauth_function):
                raise ValueError(f"{self.sasl_oauth_function!r} should be package.module:function")
        elif not all(credentials):
            raise ValueError(
                "OAUTHBEARER needs sasl_oauth_token_url, sasl_oauth_client_id and sasl_oauth_client_secret, or "
                "sasl_oauth_function"
            )
        elif not _is_endpoint(self.sasl_oauth_token_url or ""):
            raise ValueError("sasl_oauth_token_url should be https://host/path, without a user in it")


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False
