"""AWS Glue's schema registry as a child process: moto's, with what moto lacks, lists of schemas and of their versions.

    with LocalGlue() as glue:
        version = glue.add("orders", '{"type": "long"}')

It forgets everything when it stops. Its clients need any credentials (exporter/local/server.py: CREDENTIALS).
"""

from __future__ import annotations

import logging
import sys
from typing import Any
from uuid import UUID

from exporter.local.server import CREDENTIALS, LocalServer

REGISTRY = "shop"


class LocalGlue(LocalServer):
    """One, with one registry; as a context manager it runs inside the block."""

    def __init__(self) -> None:
        super().__init__("Glue", "glue")

    @property
    def client(self) -> Any:
        """Of boto3."""
        import boto3

        return boto3.client(
            "glue", endpoint_url=self.endpoint, region_name=CREDENTIALS["AWS_DEFAULT_REGION"],
            aws_access_key_id="local", aws_secret_access_key="local",
        )  # fmt: skip

    def _command(self) -> list[str]:
        """See LocalServer."""
        return [sys.executable, __file__, str(self._port)]

    def _begin(self) -> None:
        """See LocalServer; its registry is empty again."""
        super()._begin()
        self.client.create_registry(RegistryName=REGISTRY)

    def add(self, schema: str, text: str, kind: str = "AVRO") -> UUID:
        """The id of a version, which is a new one of the schema if there is one already."""
        client, of = self.client, {"RegistryName": REGISTRY, "SchemaName": schema}
        try:
            client.get_schema(SchemaId=of)
        except client.exceptions.EntityNotFoundException:
            made = client.create_schema(
                RegistryId={"RegistryName": REGISTRY}, SchemaName=schema, DataFormat=kind, Compatibility="NONE",
                SchemaDefinition=text,
            )  # fmt: skip
        else:
            made = client.register_schema_version(SchemaId=of, SchemaDefinition=text)
        return UUID(made["SchemaVersionId"])


def serve(port: int) -> None:
    """The child."""
    from moto.core.responses import ActionResult
    from moto.glue.glue_schema_registry_utils import validate_registry_id, validate_schema_id
    from moto.glue.responses import GlueResponse
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    def list_schemas(self: Any) -> Any:
        of = validate_registry_id(self._get_param("RegistryId"), self.glue_backend.registries)
        there = self.glue_backend.registries[of].schemas.values()
        named = ("RegistryName", "SchemaName", "SchemaArn", "SchemaStatus")
        return ActionResult({"Schemas": [{name: one.as_dict()[name] for name in named} for one in there]})

    def list_schema_versions(self: Any) -> Any:
        registry, schema, _ = validate_schema_id(self._get_param("SchemaId"), self.glue_backend.registries)
        there = self.glue_backend.registries[registry].schemas[schema].schema_versions.values()
        named = ("SchemaArn", "SchemaVersionId", "VersionNumber", "Status")
        every = [one.get_schema_version_as_dict() for one in there]
        return ActionResult({"Schemas": [{name: one[name] for name in named} for one in every]})

    logging.disable(logging.WARNING)  # a line per request
    GlueResponse.list_schemas = list_schemas
    GlueResponse.list_schema_versions = list_schema_versions
    run_simple("127.0.0.1", port, DomainDispatcherApplication(create_backend_app), threaded=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
