"""The settings that are tables, in the TOML file only. Of formats: format_tables.py; of event types: type_tables.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from exporter.core.routing import EventTime, TypeFrom
from exporter.settings.format_tables import SchemaRegistry, ValueFormatTable
from exporter.settings.table import Table, check_path, revealed
from exporter.settings.type_tables import RenameTable, TypeTable


class TypeFromTable(Table):
    """[type_from]"""

    kind: Literal["header", "field", "json", "key", "topic", "schema", "source"] = Field(
        description="Where a record's event type stands: in a header, in a field of the value (json is another word "
        "for field), in the key, or it is the topic's name, the name of the value's schema, or the schema and table "
        "that an envelope says the row is of.",
        examples=["field"],
    )
    name: str = Field(
        default="",
        description="Name of the header, or dotted path of the field; of a schema full (the default) or short, without "
        "its namespace; empty for key, topic and source.",
        examples=["type"],
    )
    rename: tuple[RenameTable, ...] = Field(
        default=(),
        description="Rules for event types, of which the first that fits a whole event type says what it is called "
        "from there on: `match` is a regular expression, `to` a text in which $1 and ${name} are groups and $$ is $.",
        examples=[({"match": "(.*)-v[0-9]+", "to": "$1"},)],
    )

    @model_validator(mode="after")
    def _named(self) -> TypeFromTable:
        if self.kind == "schema":
            if self.name not in ("", "full", "short"):
                raise ValueError("name should be full or short with this kind")
            return self
        is_field = self.kind in ("json", "field")
        check_path("name", self.name, needed=is_field or self.kind == "header", dotted=is_field)
        return self

    @property
    def meant(self) -> TypeFrom:
        """As it is stored: one text for each meaning."""
        if self.kind == "field":
            return TypeFrom("json", self.name)
        return TypeFrom(self.kind, "" if (self.kind, self.name) == ("schema", "full") else self.name)


class EventTimeTable(Table):
    """[event_time]"""

    kind: Literal["field", "json", "record"] = Field(
        description="Where a record's event time stands: in a field of the value (json is another word for it), or it "
        "is the record's Kafka timestamp.",
        examples=["field"],
    )
    path: str = Field(default="", description="Dotted path of the field; empty for record.", examples=["occurred_at"])
    unit: Literal["iso", "s", "ms", "us", "ns"] = Field(
        default="iso",
        description="How the field tells the time: ISO-8601 text, or a number of seconds, milliseconds, microseconds "
        "or nanoseconds since 1970. A field that is a time by its schema needs no unit.",
    )

    @model_validator(mode="after")
    def _pathed(self) -> EventTimeTable:
        check_path("path", self.path, needed=self.kind != "record", dotted=True)
        return self

    @property
    def meant(self) -> EventTime:
        """As it is stored: one text for each meaning."""
        return EventTime("json" if self.kind == "field" else self.kind, self.path, self.unit)


class KafkaClient(Table):
    """[kafka_client]: security of every connection to Kafka, kafka-python's and Spark's, in PEM files only."""

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
        description="PEM file of the client's PKCS#8 key and certificate chain, both in this one file.",
        examples=["client.pem"],
    )
    ssl_keyfile: Path | None = Field(
        default=None,
        description="The same file as ssl_certfile or nothing: Spark cannot read the key from a file of its own.",
        examples=["client.pem"],
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
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
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

    @property
    def tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @model_validator(mode="after")
    def _agree(self) -> KafkaClient:
        """A setting that the protocol ignores would promise a safety that is not there."""
        for prefix, used in (("ssl_", self.tls), ("sasl_", self.sasl)):
            idle = sorted(name for name in self.model_fields_set if name.startswith(prefix))
            if idle and not used:
                raise ValueError(f"{idle[0]} has no effect with security_protocol = {self.security_protocol!r}")
        if self.ssl_certfile is None and (self.ssl_keyfile or self.ssl_password):
            raise ValueError("ssl_keyfile and ssl_password need ssl_certfile")
        if self.ssl_keyfile not in (None, self.ssl_certfile):
            raise ValueError(
                "Spark's Kafka client cannot read key and certificate from two files: put both into one PEM file "
                "and name it as ssl_certfile"
            )
        if self.sasl:
            self._check_login()
        return self

    def _check_login(self) -> None:
        login = (self.sasl_mechanism, self.sasl_plain_username, self.sasl_plain_password)
        if not all(login):
            raise ValueError("SASL needs sasl_mechanism, sasl_plain_username and sasl_plain_password")
        for text in (self.sasl_plain_username, revealed(self.sasl_plain_password)):
            if re.search(r"[\x00-\x1f\x7f]", text or ""):
                raise ValueError("sasl_plain_username or sasl_plain_password holds a control character")


TABLES: dict[str, type[Table]] = {
    "type_from": TypeFromTable,
    "event_time": EventTimeTable,
    "types": TypeTable,
    "value_format": ValueFormatTable,
    "topic_formats": ValueFormatTable,
    "schema_registry": SchemaRegistry,
    "kafka_client": KafkaClient,
}
"""The settings that are tables, in the TOML file only."""

FREE = frozenset({"constants", "spark", "table_properties"})
"""Tables whose keys are not ours."""

NAMED = {"types": "event type", "topic_formats": "regular expression of topics"}
"""Of these there is a table for each of something."""

PATHS = frozenset(
    {"ssl_cafile", "ssl_certfile", "ssl_keyfile", "columns_file", "schema_files", "ca_file", "cert_file", "key_file"}
    | {"proto", *(f"{name}_file" for table in TABLES.values() for name in table.secrets())}
)
"""The settings in tables that are paths, relative to the TOML file."""

OF_VARIABLES = {
    f"{table}_{name}{end}": (table, f"{name}{end}")
    for table, model in TABLES.items()
    if table not in NAMED
    for name in model.secrets()
    for end in ("", "_file")
}
"""Settings in tables that the environment may give as well: secrets, so that a settings file holds none. As variable()
takes it -> table and setting."""
