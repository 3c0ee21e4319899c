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

    client_rack: str | None = Field(
        default=None,
        description="Rack of the task, as the brokers' `broker.rack`: records are read from the nearest replica, where "
        "the brokers select replicas so.",
        examples=["eu-west-1a"],
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="Encryption (SSL) and login (SASL) of the connections to Kafka."
    )
    ssl_cafile: Path | None = Field(
        default=None,
        description="PEM file of the authorities that sign the brokers' certificates; without it those of the "
        "system (Python) and of the JVM (Spark).",
        examples=["ca.pem"],
    )
    ssl_certfile: Path | None = Field(
        default=None,
        description="PEM file of the client's certificate chain, and of its PKCS#8 key without `ssl_keyfile`.",
        examples=["client.pem"],
    )
    ssl_keyfile: Path | None = Field(
        default=None,
        description="PEM file of the client's PKCS#8 key, if it is not in ssl_certfile.",
        examples=["client-key.pem"],
    )
    ssl_password: SecretStr | None = Field(
        default=None, description="Password of the encrypted key.", examples=["secret"]
    )
    ssl_password_file: Path | None = Field(
        default=None, description="File with that password alone in it, instead.", examples=["ssl-password"]
    )
    ssl_check_hostname: bool = Field(
        default=True, description="Whether the name in the broker's certificate must be its host name."
    )
    sasl_mechanism: Mechanism | None = Field(
        default=None, description="How the client proves who it is.", examples=["SCRAM-SHA-512"]
    )
    sasl_plain_username: str | None = Field(
        default=None, description="User name for PLAIN and SCRAM.", examples=["exporter"]
    )
    sasl_plain_password: SecretStr | None = Field(
        default=None, description="Password for PLAIN and SCRAM.", examples=["secret"]
    )
    sasl_plain_password_file: Path | None = Field(
        default=None, description="File with that password alone in it, instead.", examples=["sasl-plain-password"]
    )
    sasl_oauth_token_url: str | None = Field(
        default=None,
        description="Token endpoint of the authorization server, for OAUTHBEARER with a client's credentials.",
        examples=["https://login.example.com/oauth2/token"],
    )
    sasl_oauth_client_id: str | None = Field(
        default=None, description="Name of the client at the authorization server.", examples=["exporter"]
    )
    sasl_oauth_client_secret: SecretStr | None = Field(
        default=None, description="Secret of that client.", examples=["secret"]
    )
    sasl_oauth_client_secret_file: Path | None = Field(
        default=None, description="File with that secret alone in it, instead.", examples=["sasl-oauth-client-secret"]
    )
    sasl_oauth_scope: str | None = Field(
        default=None, description="Scopes to ask for, separated by spaces.", examples=["kafka"]
    )
    sasl_oauth_audience: str | None = Field(
        default=None, description="Audience to ask for, where the server wants it.", examples=["kafka"]
    )
    sasl_oauth_cafile: Path | None = Field(
        default=None,
        description="PEM file of the authorities that sign the certificate of the token endpoint; without it those "
        "of the system.",
        examples=["ca.pem"],
    )
    sasl_oauth_function: str | None = Field(
        default=None,
        description="Function, as package.module:function, that returns a token and when it ends, instead of a token "
        "endpoint.",
        examples=["our_tokens:kafka"],
    )
    sasl_aws_region: str | None = Field(
        default=None,
        description="Region of the MSK cluster, for AWS_MSK_IAM; without it the one in the brokers' names, or that of "
        "AWS's settings.",
        examples=["eu-west-1"],
    )
    sasl_kerberos_service_name: str = Field(
        default="kafka", description="First part of the brokers' principals, for GSSAPI (Kerberos)."
    )
    sasl_kerberos_principal: str | None = Field(
        default=None, description="Who logs in; without it whose tickets are in the cache.",
        examples=["exporter@EXAMPLE.COM"],
    )
    sasl_kerberos_keytab: Path | None = Field(
        default=None, description="File with the keys of that principal; without it tickets are those of the cache.",
        examples=["exporter.keytab"],
    )

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
