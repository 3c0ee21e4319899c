"""What `exporter check` says of the schema registry: what is recorded, which columns would follow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.finding import Finding
from exporter.operate.check.check import _registry_files
from exporter.operate.check.registry import check_registry
from exporter.registry.pins import Pins
from exporter.settings.load import load
from exporter.settings.model import Settings
from exporter.stores.file import FileStore
from exporter.workbench import open_registry, registry_options
from tests.support.fake_registry import Failure, FakeRegistry

ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
ORDER_2 = ORDER.replace("}]", '},{"name":"note","type":["null","string"]}]')


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    """With two versions of one subject."""
    with FakeRegistry() as found:
        found.add("orders-value", ORDER)
        found.add("orders-value", ORDER_2)
        yield found


def settings(root: Path, url: str = "", *more: str, type_from: str = 'kind = "schema"') -> Settings:
    registry = ["[value_format]", 'kind = "avro"', "[schema_registry]", f'urls = ["{url}"]', "timeout_secs = 2", *more]
    lines = [
        'brokers = ["127.0.0.1:1"]', 'topics = ["orders"]', 'group = "exports"', 'new_type = "table"',
        f'table_root = "{root / "lake"}"', "[type_from]", type_from, "[event_time]", 'kind = "record"',
        *(registry if url else []),
    ]  # fmt: skip
    path = root / "exporter.toml"
    path.write_text("\n".join(lines))
    return load(path, {}, {})


def said(found: list[Finding]) -> list[str]:
    return [f"{one.level} {one.what}: {one.says}" for one in found]


def test_without_a_registry_there_is_no_line(tmp_path: Path) -> None:
    """Most topics are JSON."""
    assert [*check_registry(settings(tmp_path, type_from='kind = "topic"'))] == []


def test_each_subject_has_its_ids_and_its_columns(server: FakeRegistry, tmp_path: Path) -> None:
    """What is recorded and what is not; the event type by the schema's name. Nothing is recorded by asking."""
    given = settings(tmp_path, server.url)
    assert said([*check_registry(given)]) == [
        f"ok schema registry: {server.url} has 1 subjects; 0 ids are recorded as default",
        "ok subject orders-value: not recorded yet: 1, 2",
        "ok subject orders-value: columns of event type shop.Order: id BIGINT, note STRING",
    ]
    assert not (tmp_path / "lake").exists()
    source = open_registry(given)
    source.look_up("default", 1, {}, now=0.0)
    short = settings(tmp_path, server.url, type_from='kind = "schema"\nname = "short"')
    assert said([*check_registry(short)])[1:] == [
        "ok subject orders-value: recorded: 1; not recorded yet: 2",
        "ok subject orders-value: columns of event type Order: id BIGINT, note STRING",
    ]


def test_the_subjects_are_those_of_the_settings_else_of_the_topics(server: FakeRegistry, tmp_path: Path) -> None:
    """Else the first ones; one that is not there yet is told."""
    server.add("clicks-value", '{"type":"record","name":"Click","fields":[{"name":"n","type":"int"}]}')
    found = [*check_registry(settings(tmp_path, server.url))]
    assert {one.what for one in found} == {"schema registry", "subject orders-value"}
    found = [*check_registry(settings(tmp_path, server.url, 'subjects = ["clicks-value", "later"]'))]
    assert said(found)[1:] == [
        "ok subject clicks-value: not recorded yet: 3",
        "ok subject clicks-value: columns of event type Click: n INT",
        "warn subject later: there is no such subject yet",
    ]
    server.subjects.pop("orders-value")
    assert [one.what for one in check_registry(settings(tmp_path, server.url))][1:] == ["subject clicks-value"] * 2


def test_trouble_and_contradictions_are_errors(server: FakeRegistry, tmp_path: Path) -> None:
    """With what a person can do; secrets are in no line."""
    secret = ['username = "exporter"', 'password = "very secret"']
    given = settings(tmp_path, server.url, *secret)
    server.failure = Failure(401, b"very secret is wrong")
    (found,) = check_registry(given)
    assert (found.level, found.what) == ("error", "schema registry") and "HTTP 401" in found.says
    assert found.hint and "very secret" not in repr(found)
    server.failure = None
    open_registry(given).look_up("default", 1, {}, now=0.0)
    server.schemas[1]["schema"] = '"another"'
    (_, wrong, *_) = check_registry(given)
    assert (wrong.level, wrong.says) == ("error", "another schema is recorded under id 1") and "name" in wrong.hint
    server.wipe()
    assert [one.level for one in check_registry(given)] == ["ok", "warn"]


def test_a_file_with_a_secret_that_everybody_may_read_is_told(server: FakeRegistry, tmp_path: Path) -> None:
    """The settings file with a token, the key of a certificate; not one without either."""
    given = settings(tmp_path, server.url, 'token = "very secret"')
    (tmp_path / "exporter.toml").chmod(0o604)
    (found,) = _registry_files(given)
    assert (found.level, found.hint) == ("warn", "chmod 600") and "exporter.toml" in found.says
    (tmp_path / "exporter.toml").chmod(0o600)
    assert [*_registry_files(given)] == []
    plain = settings(tmp_path, server.url)
    (tmp_path / "exporter.toml").chmod(0o604)
    assert [*_registry_files(plain)] == []


def test_a_schema_that_gives_no_columns_is_told(server: FakeRegistry, tmp_path: Path) -> None:
    """Each with the reason; a part that no column can hold is a line of its own."""
    server.add("orders-value", '{"type":"record","name":"Odd","fields":[{"name":"x","type":"null"},'
               '{"name":"y","type":"int"}]}')  # fmt: skip
    found = [*check_registry(settings(tmp_path, server.url))]
    assert said(found)[2:3] == ["ok subject orders-value: columns of event type Odd: y INT"]
    assert found[3].level == "warn" and found[3].says.startswith("$.x gets no column")
    server.add("orders-value", '"long"')
    (*_, last) = check_registry(settings(tmp_path, server.url))
    assert last.level == "warn" and "gives no columns" in last.says


def test_the_settings_reach_the_client(tmp_path: Path) -> None:
    """Each of [schema_registry]; the decisions lie beside the tables."""
    given = settings(tmp_path, "https://r:8081", 'name = "second"', 'token = "secret"', 'unknown_schema_id = "stall"',
                     "unknown_after_secs = 5", 'subjects = ["a"]')  # fmt: skip
    options = registry_options(given)
    assert (options.urls, options.name, options.token, options.subjects) == (
        ("https://r:8081",), "second", "secret", ("a",),
    )  # fmt: skip
    assert (options.timeout_secs, options.unknown_schema_id, options.unknown_after_secs) == (2, "stall", 5)
    assert open_registry(given).known("second").decisions == {}
    assert Pins(FileStore(str(tmp_path / "lake")), "second").ids() == []


def test_a_union_at_the_root_gives_columns_to_each_of_its_records(server: FakeRegistry, tmp_path: Path) -> None:
    """By references, as several event types in one topic are registered; its null is no type."""
    server.add("order", ORDER)
    server.add("clicks-value", '{"type":"record","name":"Click","fields":[{"name":"n","type":"int"}]}')
    references = [{"name": name, "subject": subject, "version": 1}
                  for name, subject in (("shop.Order", "order"), ("Click", "clicks-value"))]  # fmt: skip
    server.add("both", '["null", "shop.Order", "Click"]', references=references)
    assert said([*check_registry(settings(tmp_path, server.url, 'subjects = ["both"]'))])[2:] == [
        "ok subject both: columns of event type shop.Order: id BIGINT",
        "ok subject both: columns of event type Click: n INT",
    ]
