"""[derive.<name>] with kind = "to_kafka": what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.settings import loaded, refused

JOB = '[derive.out]\nkind = "to_kafka"\nsource = "order"\ntopic = "orders"\n'


@pytest.mark.parametrize(("tables", "reason"), [
    (JOB + 'delete = "true"\n', "delete needs a key"),
    (JOB + "replication = 0\n", "replication should be -1"),
    (JOB + 'proto = "a.proto"\n', "proto and message are for format"),
    (JOB + 'format = "protobuf"\nmessage = "A"\n', "message is one of a file"),
    (JOB + 'format = "xml"\n', "format"),
    (JOB + 'format = "avro"\n', "out: its format needs [schema_registry] urls"),
    (JOB.replace('"orders"', '"events"'), "topic events is exported"),
    (JOB + JOB.replace("derive.out", "derive.too"), "too: topic orders is that of out too"),
    (JOB + '[schema_registry]\nurls = ["http://a:1"]\n', "has no effect"),
])  # fmt: skip
def test_what_cannot_go_together_is_refused_by_its_name(tables: str, reason: str) -> None:
    """Each is told with what to change."""
    assert reason in refused(tables=tables)


def test_a_registry_is_used_by_a_job_alone_and_files_are_beside_the_settings() -> None:
    """No format of the topics needs it; a .proto file is found from the TOML file."""
    more = 'format = "protobuf"\nproto = "a.proto"\n[schema_registry]\nurls = ["http://a:1"]\n'
    assert loaded(tables=JOB + more).derive["out"].proto == Path("a.proto")  # type: ignore[union-attr]
