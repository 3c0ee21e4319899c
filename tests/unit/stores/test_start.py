"""What a start and `exporter check` say of a bucket before anything else is begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.errors import ConfigError, DependencyUnreachable
from exporter.finding import Finding
from exporter.operate.check import check as checking
from exporter.operate.check.check import _storage
from exporter.settings.load import load
from exporter.spark import session as spark
from exporter.stores import object_client
from tests.support.fake_s3 import FakeS3


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")
    monkeypatch.setattr(object_client, "RETRY_SECS", 0.3)
    with FakeS3() as running:
        yield running


def written(folder: Path, s3: FakeS3) -> Path:
    """A settings file of a bucket: what it takes beside that of a folder is one line."""
    toml = folder / "exporter.toml"
    toml.write_text(
        'brokers = ["127.0.0.1:1"]\ntopics = ["t"]\ngroup = "g"\ntable_root = "s3://lake/tables"\n'
        f's3_endpoint = "{s3.endpoint}"\n'
        '[type_from]\nkind = "topic"\n[event_time]\nkind = "record"\n[types.order]\ncolumns = "id BIGINT"\n'
    )
    return toml


@pytest.mark.parametrize(
    "trouble, error, code", [("ignores", ConfigError, 2), (403, ConfigError, 2), (503, DependencyUnreachable, 69)]
)
def test_a_run_does_not_begin_in_a_bucket_where_commits_could_be_lost_or_not_be_written(
    tmp_path: Path, s3: FakeS3, monkeypatch: pytest.MonkeyPatch, trouble: str | int, error: type[Exception], code: int
) -> None:
    """Each start tries whether the condition is honoured; no JVM and no broker is asked before."""
    s3.conditional = trouble != "ignores"
    s3.faults["PUT"] = [trouble] * 100 if trouble != "ignores" else []
    monkeypatch.setattr(spark, "starting", lambda *arguments: pytest.fail("Spark was started"))
    told = CliRunner().invoke(cli, ["run", "--config", str(written(tmp_path, s3))]).exception
    assert isinstance(told, error) and getattr(told, "exit_code", 0) == code and not s3.objects
    assert "s3a://lake/tables" in str(told) and "secret-of-a-test" not in str(told)


def test_a_file_where_a_table_has_to_be_is_found_in_a_bucket_too(tmp_path: Path, s3: FakeS3) -> None:
    """Hadoop makes no folder below it."""
    s3.objects["lake/tables/order/_delta_log"] = b"no folder"
    found = [*_storage(load(written(tmp_path, s3), {}, {}))]
    assert [one.level for one in found] == ["ok", "error"] and "order/_delta_log is a file" in found[1].says


def test_a_check_says_where_the_bucket_is_and_no_secret(tmp_path: Path, s3: FakeS3) -> None:
    """By few requests: a file, the same again, its removal, and two for each table."""
    (found,) = _storage(load(written(tmp_path, s3), {}, {}))
    assert found.level == "ok" and found.says.startswith(f"s3a://lake/tables, endpoint {s3.endpoint}")
    assert "secret-of-a-test" not in found.says and "someone" not in found.says
    assert (s3.times("PUT"), s3.times("DELETE"), s3.times("HEAD"), len(s3.asked)) == (2, 1, 4, 7)


def test_a_check_fetches_the_jars_of_the_store_and_asks_no_tables_of_one_that_is_out(
    tmp_path: Path, s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong is told once, and no JVM waits for it."""
    fetched: list[str] = []
    for name in ("check_broker", "check_registry", "_registry_files", "check_log", "_port"):
        monkeypatch.setattr(checking, name, lambda *arguments: ())
    monkeypatch.setattr(checking, "find_java", lambda: "java")
    monkeypatch.setattr(checking, "jar_paths", lambda name: fetched.append(name) or [])
    monkeypatch.setattr(checking, "_tables", lambda *arguments: [Finding("tables", "ok", "asked")])
    settings = load(written(tmp_path, s3), {}, {})
    assert [(one.what, one.level) for one in checking.check(settings)][-2:] == [("table_root", "ok"), ("tables", "ok")]
    assert fetched == ["spark", "s3"]
    s3.faults["PUT"] = s3.faults["LIST"] = [503] * 200
    found = [*checking.check(settings)][-1]
    assert (found.what, found.level) == ("table_root", "error") and "SlowDown" in found.says
