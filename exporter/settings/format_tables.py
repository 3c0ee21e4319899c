"""The tables that say how values are written: [value_format], [topic_formats.<regex>], [schema_registry]."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from exporter.core.value_format import Envelope, Frame, Kind
from exporter.settings.table import Table, revealed
from exporter.settings.values import Endpoint, Seconds, SecondsFrom0
from offsets.names import pins_folder

SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "avro": (".avsc",),
    "protobuf": (".desc", ".proto"),
    "json_schema": (".json",),
}
"""Kind of a format -> how the names of its schema files end."""
FRAMES: Mapping[str, tuple[Frame, ...]] = {
    "json": ("none", "confluent", "glue"),
    "avro": ("none", "confluent", "glue", "single_object"),
    "protobuf": ("none", "confluent", "glue"),
    "json_schema": ("none", "confluent", "glue"),
}
"""Kind of a format -> what can stand before a value of it; of the others nothing."""
REGISTERED = ("avro", "protobuf", "json_schema")
"""Kinds whose schemas a registry knows."""
_OF_GLUE = {"region", "registry_name", "endpoint_url"}
_OF_URLS = {
    "urls", "username", "password", "password_file", "token", "token_file", "ca_file", "cert_file", "key_file",
}  # fmt: skip
"""What is said of a registry of either kind alone."""
_URL = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")


class ValueFormatTable(Table):
    """[value_format], [topic_formats.<regular expression of topics>]"""

    kind: Kind = "json"
    """How the values of records are written: as JSON, Avro or Protobuf, as JSON with a registered JSON Schema, as Kafka
    Connect's JSON of schema and payload, or each as one column value, of text or of bytes."""
    frame: Frame | None = Field(default=None, examples=["confluent"])
    """What stands before each value: nothing, the frame of Confluent's serialisers with the id of a schema, that of AWS
    Glue's with the id of a schema's version, or Avro's single-object head with a schema's fingerprint. Without it that
    of [schema_registry], if there is one and the kind has schemas, else none."""
    envelope: Envelope = "none"
    """What a row is wrapped in, by a tool that captures changes of a database: Debezium, Debezium of MongoDB, or AWS
    DMS."""
    schema_files: tuple[Path, ...] = Field(default=(), examples=[("schemas/order.avsc",)])
    """Files of schemas for values that name none of a registry, relative to the TOML file: .avsc of Avro, .desc (a
    descriptor set) or .proto of Protobuf, .json of JSON Schema. With frame = confluent or glue those by which
    registered records and messages of the same name are read."""
    message: str = Field(default="", examples=["shop.Order"])
    """Full name of the record or message that a value without a frame is, where schema_files have several."""
    tombstones: Literal["dead_letter", "count"] = "dead_letter"
    """What becomes of records whose value is null: they are dead letters, or in no table and counted."""
    semantic_types: Literal["none", "connect"] = "none"
    """Whether Kafka Connect's and Debezium's names of logical types decide columns: dates, times and decimals that are
    numbers otherwise."""

    before: tuple[str, ...] = Field(default=(), examples=[("id",)])
    """Columns of which an update's image of before is kept, as JSON in `_cdc_before`, where it has another value: what
    mirrors need whose key changes by an update."""

    @property
    def is_raw(self) -> bool:
        return self.kind in ("string", "bytes")

    @field_validator("schema_files")
    @classmethod
    def _each_once(cls, files: tuple[Path, ...]) -> tuple[Path, ...]:
        """Their names are stored, and no folder: a configuration is the same one wherever it stands."""
        if len({file.name for file in files}) < len(files):
            raise ValueError("two files have one name, whatever their folders are: rename one")
        return files

    @model_validator(mode="after")
    def _agree(self) -> ValueFormatTable:
        """What can be told without the other tables."""
        frames = FRAMES.get(self.kind, ("none",))
        if self.frame is not None and self.frame not in frames:
            raise ValueError(f"frame should be {' or '.join(frames)} with kind = {self.kind}")
        if self.kind == "json" and self.frame in ("confluent", "glue") and self.envelope != "none":
            raise ValueError(f"envelope needs kind = json_schema with frame = {self.frame}")
        if self.is_raw and self.envelope != "none":
            raise ValueError(f"envelope has no effect with kind = {self.kind}: a value is one column as it is")
        if self.before and (self.envelope == "none" or (self.envelope == "debezium_mongo" and self.kind in REGISTERED)):
            raise ValueError(f"before has no effect with kind = {self.kind} and envelope = {self.envelope}")
        if self.semantic_types != "none" and (self.is_raw or self.kind == "protobuf"):
            raise ValueError(f"semantic_types has no effect with kind = {self.kind}")
        self._check_files()
        if self.frame in ("confluent", "glue") and self.schema_files and self.kind == "json_schema":
            raise ValueError(f"schema_files has no effect with kind = json_schema and frame = {self.frame}")
        if self.message and (not self.schema_files or self.kind == "json_schema"):
            raise ValueError("message needs schema_files of avro or protobuf, in which it is")
        return self

    def _check_files(self) -> None:
        if not self.schema_files:
            return
        suffixes = SUFFIXES.get(self.kind)
        if suffixes is None:
            raise ValueError(f"schema_files has no effect with kind = {self.kind}")
        for file in self.schema_files:
            if file.suffix.lower() not in suffixes:
                raise ValueError(f"schema_files {str(file)!r} should end in {' or '.join(suffixes)}")

    def framed(self, registry: Frame) -> Frame:
        """The frame, with its default. registry: the frame of its serialisers (SchemaRegistry.frame)."""
        if self.frame is not None:
            return self.frame
        return registry if self.kind in REGISTERED and not self.schema_files else "none"


def _topics_patterns(tables: dict[str, ValueFormatTable]) -> dict[str, ValueFormatTable]:
    for pattern in tables:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return tables


TopicFormats = Annotated[dict[str, ValueFormatTable], AfterValidator(_topics_patterns)]


class SchemaRegistry(Table):
    """[schema_registry]"""

    kind: Literal["confluent", "glue"] = Field(default="confluent", examples=["glue"])
    """Whose registry it is: Confluent's, or one that answers as that does, or AWS Glue's, which is asked with the
    credentials that AWS's standard chain finds."""
    urls: tuple[str, ...] = Field(default=(), examples=[("http://localhost:8081",)])
    """Addresses of the registry, or of several that have the same schemas, asked in this order."""
    region: str = Field(default="", examples=["eu-central-1"])
    """AWS region of Glue's registry; without it that of AWS's standard chain."""
    registry_name: str = Field(default="default-registry", examples=["shop"])
    """Name of Glue's registry, in which subjects are looked for. The schema of a record is found by its id alone,
    whichever registry of the region has it."""
    endpoint_url: Endpoint = Field(default="", examples=["http://localhost:5000"])
    """Address of Glue, if it is not AWS's own: an endpoint of a VPC, or a test server."""
    name: str = "default"
    """Under this name what the registry says is recorded beside the tables; another registry, whose ids mean other
    schemas, needs another one."""
    subjects: tuple[str, ...] = Field(default=(), examples=[("orders-value",)])
    """Subjects all of whose schemas are fetched at the start; others are when a record first names one. In Glue's
    registry a subject is a schema, whose versions are meant."""
    username: str = Field(default="", examples=["exporter"])
    """User name, if the registry asks for one."""
    password: SecretStr | None = Field(default=None, examples=["secret"])
    """Password of that user."""
    password_file: Path | None = Field(default=None, examples=["password"])
    """File with that password alone in it, instead."""
    token: SecretStr | None = Field(default=None, examples=["secret"])
    """Bearer token, instead of a user name."""
    token_file: Path | None = Field(default=None, examples=["token"])
    """File with that token alone in it, instead."""
    ca_file: Path | None = Field(default=None, examples=["ca.pem"])
    """PEM file of the authorities that sign the registry's certificate; without it those of the system."""
    cert_file: Path | None = Field(default=None, examples=["client.pem"])
    """PEM file of the client's certificate chain."""
    key_file: Path | None = Field(default=None, examples=["client.key"])
    """PEM file of its key, if that is not in cert_file."""
    timeout_secs: Seconds = 10
    """Seconds that one request to the registry may take."""
    unknown_schema_id: Literal["dead_letter", "stall"] = "dead_letter"
    """What becomes of a record whose schema id the registry definitely does not know: it is a dead letter, or its
    partition waits until somebody registers the schema. A registry that does not answer is never a reason for a dead
    letter."""
    unknown_after_secs: SecondsFrom0 = 60
    """Seconds for which the registry must have said that it does not know an id before that is decided."""

    @property
    def frame(self) -> Frame:
        """That of its serialisers; none where there is no registry."""
        return "none" if self.kind == "confluent" and not self.urls else self.kind

    @field_validator("urls")
    @classmethod
    def _urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if not _URL.fullmatch(url):
                raise ValueError("each should be http://host:port or https://host:port, without user and password")
        return urls

    @field_validator("name")
    @classmethod
    def _a_name(cls, name: str) -> str:
        if not re.fullmatch("[A-Za-z0-9_-]{1,100}", name):
            raise ValueError("should have letters, digits, _ and - only, 100 at most")
        pins_folder(name)
        return name

    @model_validator(mode="after")
    def _agree(self) -> SchemaRegistry:
        """A setting that means nothing would promise what is not there."""
        of_others = _OF_URLS if self.kind == "glue" else _OF_GLUE
        if idle := sorted(self.model_fields_set & of_others):
            raise ValueError(f"{idle[0]} has no effect with kind = {self.kind}")
        if self.kind != "glue" and not self.urls and (idle := sorted(self.model_fields_set - {"urls"})):
            raise ValueError(f"{idle[0]} has no effect without urls")
        if bool(self.username) != (self.password is not None):
            raise ValueError("username and password need each other")
        if self.username and self.token is not None:
            raise ValueError("either username and password or token")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs cert_file")
        idle = [name for name in ("ca_file", "cert_file") if getattr(self, name) is not None]
        if idle and not any(url.startswith("https:") for url in self.urls):
            raise ValueError(f"{idle[0]} has no effect without an https:// address")
        for text in (self.username, revealed(self.password), revealed(self.token)):
            if re.search(r"[\x00-\x1f\x7f]", text or ""):
                raise ValueError("username, password or token holds a control character")
        return self
