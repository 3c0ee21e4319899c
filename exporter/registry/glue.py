"""AWS Glue's schema registry, and whether what came back is an answer. In the driver alone.

    a version that is AVAILABLE, or DELETING       the schema
    EntityNotFoundException, or FAILURE            Glue knows no version of that id, or never took it
    anything else, or nothing                      trouble, which decides nothing: refused, timed out, throttled, no
                                                   credentials or rights, PENDING, not what the API says

The id of a version is a GUID here (core/schemas.py), a subject is a schema's name, and nothing refers to anything.
Credentials are those of AWS's standard chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from exporter import aws
from exporter.aside import aside
from exporter.core.schemas import GUID, called, guid_number
from exporter.errors import ConfigError, RegistryUnreachable
from exporter.registry.options import RegistryOptions
from exporter.registry.server import CONNECT_SECS_MAX, Client, Kind, RegisteredSchema
from exporter.secrets import masked
from exporter.text import shorten

PAGE = 100
_HINT = "check `[schema_registry]`: region, registry_name, the credentials and their rights; what is exported waits"
_THERE, _NEVER = ("AVAILABLE", "DELETING"), "FAILURE"


@dataclass
class Glue:
    """One region's. Every method raises RegistryUnreachable for what is no answer (see Server)."""

    client: Any
    registry: str
    timeout_secs: float

    @property
    def shown(self) -> str:
        """Its address."""
        return str(self.client.meta.endpoint_url)

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """The schema of a version; None if Glue says that there is none."""
        name = called(schema_id)
        if schema_id < GUID:
            what = f"{self.shown}: it has no ids like {name}: that is one of Confluent's registry"
            raise RegistryUnreachable(what, "another registry needs another `[schema_registry] name`")
        return self._version(SchemaVersionId=name)

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a schema."""
        found = self._version(SchemaId=self._named(subject), SchemaVersionNumber={"VersionNumber": version})
        if found is None:
            raise self._unreachable(f"version {version} of {subject} is there no longer")
        return found

    def versions(self, subject: str) -> list[int]:
        """The versions of a schema that can be used; none if there is no such schema."""
        found = self._listed("list_schema_versions", SchemaId=self._named(subject))
        return sorted(int(one["VersionNumber"]) for one in found if one["Status"] in _THERE)

    def subjects(self) -> list[str]:
        """The names of the registry's schemas."""
        found = self._listed("list_schemas", RegistryId={"RegistryName": self.registry})
        return [str(one["SchemaName"]) for one in found]

    def register(self, subject: str, kind: Kind, text: str) -> int:
        """Nothing is registered here. Raises ConfigError."""
        raise ConfigError(f"{subject} cannot be registered: schemas are only read of Glue", "use `kind = confluent`")

    def _named(self, subject: str) -> Mapping[str, str]:
        return {"RegistryName": self.registry, "SchemaName": subject}

    def _version(self, **which: Any) -> RegisteredSchema | None:
        found = self._asked("get_schema_version", **which)
        if found is None:
            return None
        try:
            status, kind, text = found["Status"], found["DataFormat"], found["SchemaDefinition"]
            number = guid_number(UUID(found["SchemaVersionId"]).bytes)
        except (KeyError, ValueError) as error:
            raise self._unreachable(f"it gave what is no schema: {type(error).__name__} {error}") from error
        if status == _NEVER:
            return None
        if status not in _THERE or kind not in ("AVRO", "PROTOBUF", "JSON"):
            raise self._unreachable(f"it gave a schema of the kind {kind!r} that is {status}")
        return RegisteredSchema(cast(Kind, kind), text, (), number)

    def _listed(self, name: str, **which: Any) -> Iterator[Mapping[str, Any]]:
        """What is listed under `Schemas`, page by page; nothing if there is nothing of that name."""
        token: dict[str, str] = {}
        while (page := self._asked(name, **which, **token, MaxResults=PAGE)) is not None:
            yield from page.get("Schemas", ())
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def _asked(self, name: str, **request: Any) -> Mapping[str, Any] | None:
        """An answer; None if what was asked for is not there."""
        from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

        call: Callable[[], Mapping[str, Any]] = lambda: getattr(self.client, name)(**request)  # noqa: E731
        try:
            return aside("glue-schema-registry", call).result(self.timeout_secs)
        except (TooLate, ReadTimeoutError):  # whichever clock is the first: they run for as long as each other
            raise self._unreachable(f"{name}: no answer in time: not done after {self.timeout_secs:g} s") from None
        except ClientError as error:
            told = error.response["Error"]
            if told["Code"] == "EntityNotFoundException":
                return None
            raise self._unreachable(f"{name}: {told['Code']}: {shorten(str(told.get('Message', '')))}") from error
        except (BotoCoreError, ValueError) as error:
            raise self._unreachable(f"{name}: {shorten(str(error))}") from error

    def _unreachable(self, what: str) -> RegistryUnreachable:
        return RegistryUnreachable(masked(f"{self.shown}: {what}"), _HINT)


def connect_glue(options: RegistryOptions) -> Client:
    """A client; nothing is asked yet. Raises ConfigError where there is no region, or a profile that is not there."""
    import boto3  # 0.1 s
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    secs = options.timeout_secs
    config = Config(
        connect_timeout=min(secs, CONNECT_SECS_MAX), read_timeout=secs, retries={"total_max_attempts": 1}
    )  # fmt: skip
    try:
        session = boto3.session.Session(botocore_session=aws.session(), region_name=options.region or None)
        client = session.client("glue", endpoint_url=options.endpoint_url or None, config=config)
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"no client of Glue's schema registry: {error}", "set `[schema_registry] region`") from error
    return Client([Glue(client, options.registry_name, secs)])
