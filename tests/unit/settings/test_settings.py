"""Settings: one name in three spellings, and whatever cannot be used is refused before anything runs."""

from __future__ import annotations

import base64
import json
import pickle
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from exporter.cli.options import click_options
from exporter.core.deployment import Deployment
from exporter.core.routing import EventTime, TypeFrom
from exporter.core.specs import Specs
from exporter.errors import ConfigError
from exporter.kafka.options import kafka_python_options
from exporter.settings.derive_tables import KINDS
from exporter.settings.load import load
from exporter.settings.meaning import routing, specs_of
from exporter.settings.model import SCALARS, Settings, flag, variable
from exporter.settings.reference import example_toml, reference
from exporter.settings.rules import RULES, broken
from exporter.settings.tables import FREE, NAMED, TABLES
from offsets.partitions import DAY, Spec
from offsets.selection import Share, Topics
from tests.support import settings as settings_files

EXAMPLE = Path(__file__).parents[3] / "deploy" / "exporter.example.toml"
SECRET = "hunter2-very-secret"
SCALAR_LINES = """
brokers = ["k1:9092", "k2:9092"]
topics = ["events"]
group = "exports"
table_root = "file:///data/tables"
"""
TABLE_LINES = """
[type_from]
kind = "json"
name = "meta.type"
[event_time]
kind = "json"
path = "at"
unit = "ms"
[types.order]
columns = "id BIGINT"
"""
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n"


loaded = partial(settings_files.loaded, head=SCALAR_LINES, plain=TABLE_LINES)
refused = partial(settings_files.refused, head=SCALAR_LINES, plain=TABLE_LINES)


def write(scalars: str = "", tables: str = "", name: str = "exporter.toml") -> Path:
    return settings_files.written(Path(), tables, scalars, head=SCALAR_LINES, plain=TABLE_LINES, name=name)


def test_flag_wins_over_environment_over_file_over_default() -> None:
    """Each layer hides the ones below it, and origin() names the layer that won."""
    path, environ, flags = write("poll_secs = 2"), {"EXPORTER_POLL_SECS": "3"}, {"poll_secs": "4"}
    write(name="without.toml")
    seen = [
        load(Path("without.toml"), {}, {}),
        load(path, {}, {}),
        load(path, {}, environ),
        load(path, flags, environ),
    ]
    assert [settings.poll_secs for settings in seen] == [1, 2, 3, 4]
    assert [settings.origin("poll_secs") for settings in seen] == [
        "default",
        "file exporter.toml",
        "environment EXPORTER_POLL_SECS",
        "flag --poll-secs",
    ]


def test_a_flag_that_was_not_given_hides_nothing() -> None:
    """None as a flag's value means: not given."""
    assert load(write("poll_secs = 2"), {"poll_secs": None}, {}).poll_secs == 2


def test_the_process_environment_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the environment that was handed over counts."""
    monkeypatch.setenv("EXPORTER_POLL_SECS", "7")
    monkeypatch.setenv("EXPORTER_NONSENSE", "7")
    monkeypatch.setenv("POLL_SECS", "7")
    assert loaded().poll_secs == 1


SERVICE = {
    "{}_SERVICE_HOST": "10.0.0.11", "{}_SERVICE_PORT": "9108", "{}_SERVICE_PORT_HTTP": "9108",
    "{}_PORT": "tcp://10.0.0.11:9108", "{}_PORT_9108_TCP": "tcp://10.0.0.11:9108", "{}_PORT_9108_TCP_PROTO": "tcp",
    "{}_PORT_9108_TCP_PORT": "9108", "{}_PORT_9108_TCP_ADDR": "10.0.0.11",
}  # fmt: skip
"""What Kubernetes puts into each pod's environment for a Service."""


@pytest.mark.parametrize("service", ["EXPORTER", "EXPORTER_METRICS", "EXPORTER_HTTP", "EXPORTER_0"])
def test_variables_that_kubernetes_makes_of_a_service_are_no_settings(service: str) -> None:
    """Whatever the Service is called: one named exporter-http hides no http_port of the file."""
    injected = {name.format(service): text for name, text in SERVICE.items()}
    settings = load(write("http_port = 9200"), {}, injected)
    assert settings.http_port == 9200
    assert load(write(), {}, {**injected, "EXPORTER_HTTP_PORT": "9300"}).http_port == 9300


@pytest.mark.parametrize("name", ["EXPORTER_PORT", "EXPORTER_HTP_PORT", "EXPORTER_SERVICE_PORT", "EXPORTER_WAL_TABEL"])
def test_a_misspelt_setting_is_an_error_beside_services_too(name: str) -> None:
    """Only what belongs to a Service is left out."""
    with pytest.raises(ConfigError, match=f"unknown environment variable {name}"):
        load(write(), {}, {"EXPORTER_METRICS_SERVICE_HOST": "10.0.0.11", name: "9108"})


def test_every_scalar_has_the_same_meaning_in_all_three_spellings() -> None:
    """Text from a flag or the environment gives the value that the example file gives."""
    texts = {name: default.strip('"') for name, default, _ in reference() if name in SCALARS}
    texts |= {"brokers": "k1:9092,k2:9092", "topics": "events", "group": "exports", "app": "exports"}
    texts |= {"table_root": "file:///data/tables"}
    path = write()
    by_flags = load(path, texts, {})
    by_environment = load(path, {}, {variable(name): text for name, text in texts.items()})
    assert by_flags.model_dump() == by_environment.model_dump() == load(path, {}, {}).model_dump()
    assert {by_flags.origin(name).split()[0] for name in SCALARS} == {"flag"}


@pytest.mark.parametrize("name", ["./exporter.toml", "other.toml"])
def test_the_file_is_found_by_its_default_name_or_by_the_environment(name: str) -> None:
    """Without --config: $EXPORTER_CONFIG, else ./exporter.toml if it is there."""
    write("poll_secs = 9", name=name)
    assert load(None, {}, {"EXPORTER_CONFIG": name} if name == "other.toml" else {}).poll_secs == 9


def test_a_file_that_was_asked_for_must_be_there() -> None:
    """A missing --config is an error that names it."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file"):
        load(Path("nowhere.toml"), {}, {})


@pytest.mark.parametrize("flags", [{}, {"brokers": "k:9092", "group": "g"}])
def test_without_a_settings_file_one_message_says_where_it_was_looked_for(flags: dict[str, str]) -> None:
    """Not a list of all that is missing: the tables stand in a file only, so without one nothing starts."""
    with pytest.raises(ConfigError) as caught:
        load(None, flags, {})
    assert caught.value.message == (
        "there is no settings file: neither --config nor EXPORTER_CONFIG names one, "
        f"and there is no exporter.toml in {Path.cwd()}"
    )
    assert "`exporter config --write-example > exporter.toml`" in caught.value.hint


def test_what_is_missing_is_told_with_all_its_spellings() -> None:
    """A scalar may come from a flag, the environment or the file; a table from the file."""
    Path("empty.toml").write_text("")
    with pytest.raises(ConfigError) as caught:
        load(Path("empty.toml"), {}, {})
    assert "brokers is missing" in str(caught.value)
    assert "give --brokers, EXPORTER_BROKERS or brokers in empty.toml" in str(caught.value)
    assert "[type_from] is missing" in str(caught.value)


def test_hints_name_nothing_that_an_installation_has_not() -> None:
    """The folder deploy/ is not in the package: what explains the settings is a verb, which writes them."""
    for text in ("", "nonsense_of_mine = 1", "brokers = ["):
        Path("broken.toml").write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(Path("broken.toml"), {}, {})
        assert "deploy/" not in str(caught.value)
        assert "`exporter config --write-example`" in str(caught.value)


def test_broken_toml_is_refused_with_its_line() -> None:
    """The message leads to the line, and does not quote it: it may hold a password."""
    message = refused(tables=f"[kafka_client]\nsasl_plain_password = {SECRET}")
    assert re.search(r"exporter\.toml is not TOML: .*line 17", message)
    assert SECRET not in message
    Path("latin.toml").write_bytes(b'group = "\xe9"')
    with pytest.raises(ConfigError, match="is not UTF-8: byte 9"):
        load(Path("latin.toml"), {}, {})


@pytest.mark.parametrize(
    ("scalars", "tables", "environ", "what", "hint"),
    [
        ("roll_age_secs = 5", "", {}, "unknown setting 'roll_age_secs' in exporter.toml", "roll_age_max_secs?"),
        ("sasl_mechanism = 'PLAIN'", "", {}, "unknown setting 'sasl_mechanism'", "kafka_client.sasl_mechanism?"),
        ("_env_file = 'x'", "", {}, "unknown setting '_env_file'", ""),
        ("Group = 'x'", "", {}, "unknown setting 'Group'", "did you mean group?"),
        ("quorum = 'off'", "", {}, "unknown setting 'quorum'", "lists every setting"),
        ("", "", {"EXPORTER_POL_SECS": "5"}, "variable EXPORTER_POL_SECS", "EXPORTER_POLL_SECS?"),
        ("", "", {"exporter_group": "x"}, "variable exporter_group", "EXPORTER_GROUP?"),
        ("", "", {"EXPORTER_TYPES": "x"}, "variable EXPORTER_TYPES", "[types] stands in the TOML file only"),
        ("", "[kafka_client]\nssl_cafil = 'x'", {}, "unknown setting [kafka_client] ssl_cafil", "ssl_cafile?"),
        ("", "[types.b]\ncolumn = 'a INT'", {}, "unknown setting [types.b] column", "did you mean columns?"),
        ("", "[types.b.c]\ncolumns = 'a INT'", {}, "unknown setting [types.b] c", '[types."a.b"]'),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(
    scalars: str, tables: str, environ: dict[str, str], what: str, hint: str
) -> None:
    """Nothing that is misspelt is ignored, wherever it stands."""
    message = refused(scalars, tables, **environ)
    assert what in message
    assert hint in message


def test_an_unknown_flag_is_refused_with_the_nearest_known_one() -> None:
    """A verb cannot hand over a flag that is no setting."""
    with pytest.raises(ConfigError, match=r"unknown flag --poll-sec\n.*--poll-secs\?"):
        load(write(), {"poll_sec": "1"}, {})


def test_names_of_the_tests_and_the_cache_are_no_settings() -> None:
    """These EXPORTER_ variables belong to others and are let through."""
    ours = [f"EXPORTER_TEST_{name}" for name in ("KAFKA", "DYNAMODB", "REGISTRY", "S3", "GCS", "HDFS")]
    names = (*ours, "EXPORTER_CACHE_DIR", "EXPORTER_FAULTS", "EXPORTER_CONTROL_LOSS")
    assert loaded(**dict.fromkeys(names, "x")) == loaded()


def test_an_error_names_the_setting_in_the_spelling_in_which_it_was_given() -> None:
    """Flag, environment or file: the person finds the text to change."""
    flags, environ = {"roll_records_max": "many"}, {"EXPORTER_POLL_SECS": "0"}
    with pytest.raises(ConfigError) as caught:
        load(write('isolation = "dirty"'), flags, environ)
    message = str(caught.value)
    assert "3 problems" in message
    assert "--roll-records-max 'many': should be a valid integer" in message
    assert "EXPORTER_POLL_SECS='0': should be greater than 0" in message
    assert "isolation = 'dirty' in exporter.toml: should be 'read_committed' or 'read_uncommitted'" in message


KINDS_OF = {name: field.annotation for name, field in Settings.model_fields.items()}
NUMBERS = {name: kind for name, kind in KINDS_OF.items() if kind in (int, float)}
WORDS = {name: re.findall("'(.*?)'", str(kind)) for name, kind in KINDS_OF.items() if "Literal" in str(kind)}
del WORDS["first_position"]  # a time, too


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_none_of_what_only_looks_like_one(name: str) -> None:
    """Neither a truth value nor, of a count, a part; a time or a size has an end."""
    assert "not true or false" in refused(f"{name} = true")
    for text in ("1.5",) if NUMBERS[name] is int else ("inf", "nan"):
        assert f"{name} = {text} in exporter.toml: should be" in refused(f"{name} = {text}")
    assert f"{name} = -1" in refused(f"{name} = -1")


@pytest.mark.parametrize("name", WORDS)
def test_a_word_that_cannot_be_chosen_is_refused_with_those_that_can(name: str) -> None:
    """All of them, and no other than those."""
    told = refused(f"{name} = 'neither'").partition("should be ")[2]
    assert re.findall("'(.*?)'", told.partition("\n")[0]) == WORDS[name]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("generation = -1", "greater than or equal to 0"),
        ("staged_bytes_max = 1000", "less than roll_bytes_max"),
        ("first_position = 1700000000", "earliest, latest or an ISO-8601"),
        ("first_position = '1700000000'", "earliest, latest or an ISO-8601"),
        ("first_position = '2026-01-31'", "with a zone"),
        ("first_position = 2026-01-31", "with a zone"),
        ("first_position = '2026-01-31T00:00:00'", "with a zone"),
        ("first_position = 2026-01-31T00:00:00", "with a zone"),
        ("first_position = '2026-13-31T00:00:00Z'", "with a zone"),
        ("first_position = '1969-12-31T23:59:59.999Z'", "before 1970"),
        ("event_time_min = 946684800", "with a zone"),
        ("new_types_max = 0", "new_types_max"),
        ("driver_memory = '1 GB'", "such as 2g"),
        ("spark_master = 'locl[2]'", "spark://"),
        ("driver_host = 'driver:7078'", "without a port"),
        ("worker_python = './env/bin/python'\nworker_archive = 'env.tar.gz'", "path#folder"),
        ("worker_archive = 'env.tar.gz#env'", "needs worker_python"),
        ("app = 'a.b'", "letters, digits, _ and - only"),
        ("catalog = 'hive'", "needs catalog_database"),
        ("catalog_database = 'Lake'", "lower-case letters, digits and _ only"),
        ("catalog = 'glue'\ncatalog_database = 'lake'", "glue is for tables in s3://"),
        ("catalog_uri = 'thrift://m:9083'", "no effect without catalog"),
        ("catalog = 'hive'\ncatalog_database = 'lake'\ncatalog_uri = 'm:9083'", "should be thrift://host:port"),
        ("catalog = 'hive'\ncatalog_database = 'lake'\ncatalog_uri = 'http://m:9083'", "should be thrift://host:port"),
        ("catalog = 'glue'\ncatalog_database = 'lake'\ncatalog_uri = 'thrift://m:1'", "should be http://host:port"),
        ("catalog = 'hive'\ncatalog_database = 'main.lake'", "a database of hive is in no other"),
        ("catalog = 'unity'\ncatalog_database = 'lake'", "needs a catalog_database of the form catalog.schema"),
        ("catalog = 'unity'\ncatalog_database = 'main.lake'", "is needed with catalog = unity"),
        ("catalog = 'unity'\ncatalog_database = 'a.b'\ncatalog_uri = 'm:1'", "should be http://host:port"),
        ("catalog_token_file = '/token'", "no effect without catalog = unity"),
        ("catalog_token_file = 'token'", "should be a path from / on"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(line: str, reason: str) -> None:
    """Numbers without a unit, times without a zone, limits that defeat each other."""
    assert reason in refused(line)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("brokers", "", "at least 1"),
        ("brokers", "k1", "'k1' should be host:port"),
        ("brokers", "k1:9092,k2:99999", "'k2:99999' should be host:port"),
        ("topics", "a,b,a", "named twice"),
        ("topics", "a b", "a topic's name"),
        ("topics_pattern", "a.*", "cannot be given together with topics"),
        ("partitions", "0,1", "no effect without assignment = static"),
        ("topics", "..", "a topic's name"),
        ("group", " ", "name of a consumer group"),
        ("table_root", "ftp://bucket/tables", "ftp:// is not a store that tables can be in"),
        ("table_root", "s3://bucket/%20", "should be written plainly"),
        ("s3_endpoint", "localhost:9000", "should be http://host:port or https://host:port"),
        ("table_root", "tables", "absolute path"),
        ("table_root", "file://host/tables", "absolute path"),
        ("table_root", "file:///a%20b", "not decoded"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(name: str, text: str, reason: str) -> None:
    """Brokers, topics, group and root are checked before anything is asked over the network."""
    with pytest.raises(ConfigError) as caught:
        load(write(), {name: text}, {})
    assert f"{flag(name)} " in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('"spark.sql.extensions" = "x"', "spark.sql.extensions is not passed on: the export rests on its own value"),
        ('"spark.delta.logStore.file.impl" = "x"', "the export rests on its own value of it"),
        ('"spark.driver.host" = "x"', "use the setting driver_host"),
        ('"executor.cores" = 2', "should begin with spark."),
        ('"spark.hadoop.fs.s3a.secret.key" = "x"', "credentials are those of the standard chain"),
    ],
)
def test_an_option_that_the_export_rests_on_is_not_passed_to_spark(line: str, reason: str) -> None:
    """Two values of one thing, of which one would be ignored in silence."""
    assert reason in refused(tables=f"[spark]\n{line}\n")


def test_where_spark_runs_is_what_the_settings_say() -> None:
    """Each setting by its name; numbers and booleans of TOML are texts to Spark."""
    scalars = "spark_master = 'spark://m:7077'\ndriver_memory = '2g'\ndriver_host = 'd'\ndriver_port = 7078\n"
    scalars += "worker_python = './e/bin/python'\nworker_archive = 'e.tgz#e'\n"
    given = loaded(scalars, '[spark]\n"spark.executor.cores" = 2\n"spark.speculation" = true\n').deployment
    options = {"spark.executor.cores": "2", "spark.speculation": "true"}
    assert given == Deployment("spark://m:7077", "2g", "d", 7078, "./e/bin/python", "e.tgz#e", options)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("exporter.app", "none of Delta's own properties"),
        ("comment", "none of Delta's own properties"),
        ("delta.appendOnly", "dead letters leave their table"),
        ("delta.columnMapping.mode", "the names of their columns"),
        ("DELTA.ColumnMapping.mode", "the names of their columns"),
        ("delta.constraints.positive", "nobody would enforce them"),
        ("delta.setTransactionRetentionDuration", "positions would expire"),
        ("delta.coordinatedCommits.commitCoordinator-preview", "the table's own log"),
        ("delta.feature.catalogManaged", "the table's own log"),
        ("delta.minReaderVersion", "the features that are used decide it"),
        ("delta.randomizeFilePrefixes", "the folders of their partitions"),
        ("delta.universalFormat.enabledFormats", "no other format's metadata"),
    ],
)
def test_a_table_property_on_which_the_export_rests_is_refused(name: str, reason: str) -> None:
    """And what is none of Delta's; its own are left to Delta, which is asked at the start."""
    assert reason in refused(f'table_properties = {{ "{name}" = "true" }}')


def test_other_table_properties_are_taken_as_text() -> None:
    """Whatever they are, here; numbers and truth values as Delta writes them."""
    given = 'table_properties = { "delta.checkpointInterval" = 20, "delta.enableChangeDataFeed" = true }'
    found = load(write(given), {}, {}).table_properties
    assert found == {"delta.checkpointInterval": "20", "delta.enableChangeDataFeed": "true"}


def test_lists_are_given_as_comma_text_or_as_lists() -> None:
    """`a, b` of a flag is ["a", "b"] of the file."""
    settings = load(write(), {"brokers": "k1:9092, [::1]:9093"}, {})
    assert settings.brokers == ("k1:9092", "[::1]:9093")
    assert load(write(), {"topics": "a, b"}, {}).selection == Topics(("a", "b"))


def test_topics_or_a_pattern_must_be_given() -> None:
    """An empty list is no way to say "all"."""
    with pytest.raises(ConfigError, match=r"topics_pattern \(default\): either topics or topics_pattern is needed"):
        load(write(), {"topics": " , "}, {})


def test_topics_are_named_or_match_a_pattern_as_a_whole() -> None:
    """Exactly one of the two; a pattern that matches a part of the name only does not take it."""
    patterned = load(write(), {"topics": "", "topics_pattern": r"shop\..+|b"}, {}).selection
    names = ("shop.a", "shop.", "b", "bb", "my.shop.a", "b\n")
    assert [name for name in names if patterned.match(name)] == ["shop.a", "b"]
    assert [name for name in ("event", "events") if loaded().selection.match(name)] == ["events"]
    with pytest.raises(ConfigError, match="not a regular expression"):
        load(write(), {"topics": "", "topics_pattern": "a("}, {})


@pytest.mark.parametrize(
    ("text", "held"),
    [("0,2,5", {0, 2, 5}), ("3", {3}), ("1/4", {1, 5}), ("0/1", set(range(8))), (" 2 / 3 ", {2, 5})],
)
def test_static_partitions_are_listed_or_counted(text: str, held: set[int]) -> None:
    """A list of partitions, or index/count as a scheduler gives them to its allocations."""
    share = loaded(f'assignment = "static"\npartitions = "{text}"').share
    assert share is not None
    assert {partition for partition in range(8) if share.holds(partition)} == held


def test_the_shares_of_all_indices_are_each_partition_once() -> None:
    """index/count for index 0 to count - 1 covers every partition and none twice."""
    shares = [Share.parse(f"{index}/3") for index in range(3)]
    assert [sum(share.holds(partition) for share in shares) for partition in range(10)] == [1] * 10


def test_static_partitions_may_be_a_list_of_the_file() -> None:
    """[0, 2] in TOML is "0,2" of a flag; without assignment = static the group decides."""
    assert loaded('assignment = "static"\npartitions = [0, 2]').share == Share(frozenset({0, 2}))
    assert loaded().share is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is needed with assignment = static"),
        ("a", "partitions such as 0,2,5"),
        ("1,,2", "partitions such as 0,2,5"),
        ("-1", "partitions such as 0,2,5"),
        ("1,2,1", "names a partition twice"),
        ("4/4", "index 4 should be less than the count 4"),
        ("0/0", "index 0 should be less than the count 0"),
        ("1/2/3", "index/count such as 1/4"),
        ("1,2/3", "index/count such as 1/4"),
    ],
)
def test_static_partitions_that_cannot_be_meant_are_refused(text: str, reason: str) -> None:
    """Before anything is asked over the network."""
    assert reason in refused(f'assignment = "static"\npartitions = "{text}"')


def test_the_root_is_a_path_however_it_is_written() -> None:
    """file:///x and /x are the same folder."""
    assert loaded().store.uri() == "/data/tables"
    assert load(write(), {"table_root": "/data/tables"}, {}).store == loaded().store


def test_the_app_is_the_group_unless_it_is_given() -> None:
    """A group that cannot be an app asks for one, and does not become another name silently."""
    assert loaded().app == "exports"
    assert loaded("app = 'a'").app == "a"
    with pytest.raises(ConfigError, match=r"app \(default\): .*by default it is the group, 'my.group'"):
        load(write(), {"group": "my.group"}, {})
    assert load(write(), {"group": "my.group", "app": "mine"}, {}).app == "mine"


@pytest.mark.parametrize(
    "value", ["2026-01-31T01:00:00.5+01:00", "2026-01-31T00:00:00.500000Z", "2026-01-31T00:00:00.4999001Z"]
)
def test_a_first_position_in_time_is_rounded_up_to_kafkas_milliseconds(value: str) -> None:
    """No record before the given time is exported; zones are converted."""
    assert loaded(f"first_position = '{value}'").first_position_at == 1_769_817_600_500
    assert loaded("first_position = 2026-01-31T00:00:00.5Z").first_position_at == 1_769_817_600_500
    assert loaded("first_position = 'latest'").first_position_at == "latest"


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ("[types.dead_letters]\ncolumns = 'a INT'", "'dead_letters': dead_letters is the exporter's own"),
        ("[types.Dead_Letters]\ncolumns = 'a INT'", "'Dead_Letters': dead_letters is the exporter's own"),
        ("[types.Order]\ncolumns = 'a INT'", "'order' and 'Order' differ by case only"),
        ("[types.'']\ncolumns = 'a INT'", "an event type cannot be empty"),
        (f"[types.{'x' * 300}]\ncolumns = 'a INT'", "needs a folder name of 300 bytes"),
        ("[types.b]", "[types] in exporter.toml: b needs columns or columns_file, or evolve = add"),
        ("[types.b]\ncolumns = 'a INT'\ncolumns_file = 'b.ddl'", "needs either columns or columns_file"),
        ("[types.b]\ncolumns = ' '", "columns is empty"),
        ("[types.b]\ncolumns_file = 'b.ddl'", "b.ddl cannot be read: No such file"),
        ("[types.b]\ncolumns = 'a INT'\npartition_by = 'year'", "partition_by in exporter.toml: should be 'day'"),
        ("[types.b]\ncolumns = 'a INT'\npartition_columns = ['a-b']", "'a-b' cannot cut a table"),
        ("[types.b]\ncolumns = 'a INT'\npartition_columns = ['Month']", "'Month' cannot cut a table"),
        ("[types.b]\ncolumns = 'a INT'\npartition_columns = ['a', 'A']", "names a column twice"),
    ],
)
def test_an_event_type_that_no_table_can_carry_is_refused(tables: str, reason: str) -> None:
    """Folders that clash and types without columns are found before a table is made."""
    assert reason in refused(tables=tables)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('name = "meta.type"', "", "name is missing"),
        ('name = "meta.type"', 'name = "meta..type"', "dotted path"),
        ('name = "meta.type"', 'name = "$.type"', "dotted path"),
        ('name = "meta.type"', "name = 'meta.ty\"pe'", "cannot hold as it is"),
        ('kind = "json"\nname', 'kind = "topic"\nname', "name is not used"),
        ('kind = "json"\nname', 'kind = "jsn"\nname', "[type_from] kind in exporter.toml: should be 'header'"),
        ('path = "at"', "", "path is missing"),
        ('kind = "json"\npath', 'kind = "record"\npath', "path is not used"),
        ('unit = "ms"', 'unit = "min"', "[event_time] unit in exporter.toml: should be 'iso'"),
        ("[types.order]\ncolumns", "[types]\norder", "[types.order] in exporter.toml: should be a valid dictionary"),
        ('[types.order]\ncolumns = "id BIGINT"', "[types]", "no event type is declared"),
    ],
)
def test_a_table_that_does_not_say_where_to_look_is_refused(old: str, new: str, reason: str) -> None:
    """[type_from], [event_time] and [types] must fit their kind."""
    text = write().read_text("utf-8")
    assert old in text
    Path("exporter.toml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ConfigError) as caught:
        load(None, {}, {})
    assert reason in str(caught.value)


def test_a_type_is_cut_as_it_says_or_as_all_are() -> None:
    """A type that says nothing, and every type that is not declared, is cut by the one setting; `day` by default."""
    assert specs_of(loaded()) == Specs({"order": DAY}, DAY)
    tables = "[types.b]\ncolumns = 'a INT, c STRING'\npartition_by = 'none'\npartition_columns = ['c', 'a']"
    specs = specs_of(load(write("partition_by = 'hour'", tables), {}, {}))
    assert specs == Specs({"order": Spec("hour"), "b": Spec("none", ("c", "a"))}, Spec("hour"))
    assert specs_of(load(write(), {"partition_by": "month"}, {})).others == Spec("month")


def test_how_tables_are_cut_is_no_part_of_the_routing() -> None:
    """It says nothing of where a record goes: a fingerprint that changed would drain and seal every table."""
    settings = load(write("partition_by = 'hour'"), {}, {})
    schemas = {"order": '{"type":"struct","fields":[]}'}
    assert routing(settings, schemas).to_json() == routing(loaded(), schemas).to_json()


def test_columns_are_read_from_a_file_beside_the_toml_file() -> None:
    """columns_file is relative to the TOML file, not to the working folder."""
    Path("etc").mkdir()
    Path("etc/b.ddl").write_text("a INT, ä STRING", "utf-8")
    path = write(tables="[types.'b.c']\ncolumns_file = 'b.ddl'", name="etc/exporter.toml")
    assert load(path, {}, {}).declared == {"order": "id BIGINT", "b.c": "a INT, ä STRING"}
    Path("etc/b.ddl").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        load(path, {}, {})


def test_routing_carries_exactly_what_decides_where_a_record_goes() -> None:
    """Equal configurations give equal fingerprints; the schema's JSON text is made canonical."""
    settings = loaded("generation = 3\nevent_time_min = '2001-01-01T00:00:00Z'\nrecord_bytes_max = 5")
    made = routing(settings, {"order": '{"type": "struct", "fields": []}'})
    assert made.type_from == TypeFrom("json", "meta.type")
    assert made.event_time == EventTime("json", "at", "ms")
    assert made.types == (("order", '{"fields":[],"type":"struct"}'),)
    assert (made.generation, made.record_bytes_max, made.event_time_min_us) == (3, 5, 978_307_200_000_000)
    assert made.fingerprint() == routing(settings, {"order": '{"fields":[],"type":"struct"}'}).fingerprint()
    no_part = {"roll_age_max_secs": 1, "json_text": "canonical", "rescue_empty": True}
    other = load(write(), {**no_part, "generation": 3, "event_time_min": "2001-01-01T01:00:00+01:00"}, {})
    assert routing(other, made.schemas) == replace(made, record_bytes_max=10_000_000)


def required(*names: str) -> str:
    """Spark schema JSON, canonical: NOT NULL at each level."""
    inner = {"fields": [{"metadata": {}, "name": "y", "nullable": False, "type": "long"}], "type": "struct"}
    kinds = {"x": "long", "s": inner, "l": {"containsNull": False, "elementType": inner, "type": "array"}}
    fields = [{"metadata": {}, "name": name, "nullable": False, "type": kinds[name]} for name in names]
    return json.dumps({"fields": fields, "type": "struct"}, separators=(",", ":"))


def test_what_is_forced_to_be_optional_is_nullable_in_the_routing() -> None:
    """At every level, of all types or of one; it decides verdicts, so it is another configuration where it matters."""
    schemas = {"order": required("x", "s", "l"), "click": required("x")}
    click = "[types.click]\ncolumns = 'x BIGINT NOT NULL'\n"
    plain = routing(loaded(tables=click), schemas)
    assert plain.schemas == schemas
    every = routing(loaded("force_optional = true", click), schemas)
    assert every.schemas == {name: one.replace("false", "true") for name, one in schemas.items()}
    assert every.fingerprint() != plain.fingerprint()
    own = {"order": schemas["order"], "click": schemas["click"].replace("false", "true")}
    assert routing(loaded(tables=click + "force_optional = true"), schemas).schemas == own
    kept = routing(loaded("force_optional = true", click + "force_optional = false"), schemas).schemas
    assert kept == {"order": every.schemas["order"], "click": schemas["click"]}
    assert routing(loaded("force_optional = true", click), every.schemas) == every, "nothing else of it is recorded"


def test_routing_wants_the_schema_of_each_declared_type() -> None:
    """A missing or a foreign schema is a mistake of the caller."""
    for schemas in ({}, {"order": "{}", "other": "{}"}):
        with pytest.raises(ValueError, match="declared types"):
            routing(loaded(), schemas)


SASL = f"""[kafka_client]
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
sasl_plain_username = "me"
sasl_plain_password = "{SECRET}"
"""


AVRO = '[value_format]\nkind = "avro"\nframe = "confluent"\n'
REGISTRY = AVRO + '[schema_registry]\nurls = ["http://r"]\nusername = "me"\n'
MSK = "[kafka_client]\nsecurity_protocol = 'SASL_SSL'\nsasl_mechanism = 'AWS_MSK_IAM'\n"
KERBEROS = """[kafka_client]
security_protocol = "SASL_SSL"
sasl_mechanism = "GSSAPI"
sasl_kerberos_principal = "me@REALM"
sasl_kerberos_keytab = "nowhere.keytab"
"""
OAUTH = f"""[kafka_client]
security_protocol = "SASL_SSL"
sasl_mechanism = "OAUTHBEARER"
sasl_oauth_token_url = "https://login/token"
sasl_oauth_client_id = "me"
sasl_oauth_client_secret = "{SECRET}"
"""
BARE = SASL.replace(f'sasl_plain_password = "{SECRET}"\n', "")
VARIABLE = "EXPORTER_KAFKA_CLIENT_SASL_PLAIN_PASSWORD"


def password(settings: Settings) -> str:
    return str(kafka_python_options(settings)["sasl_plain_password"])


def test_a_settings_file_need_hold_no_secret() -> None:
    """Each stands in a file of its own or in the environment, which counts whatever the file says."""
    Path("secret").write_text(f"{SECRET}\n")
    for tables, environ in (
        (f"{BARE}sasl_plain_password_file = 'secret'", {}),
        (BARE, {VARIABLE: SECRET}),
        (BARE, {f"{VARIABLE}_FILE": "secret"}),
        (f"{BARE}sasl_plain_password = 'other'", {VARIABLE: SECRET}),
        (f"{BARE}sasl_plain_password_file = 'missing'", {VARIABLE: SECRET}),
        (f"{BARE}sasl_plain_password = 'other'", {f"{VARIABLE}_FILE": "secret"}),
    ):
        settings = loaded(tables=tables, **environ)
        assert password(settings) == SECRET, (tables, environ)
        told = f"environment {next(iter(environ))}" if environ else "default"
        key = "sasl_plain_password" + ("_file" if f"{VARIABLE}_FILE" in environ else "")
        assert settings.origin(f"kafka_client.{key}") == told
    registry = loaded(tables=REGISTRY, EXPORTER_SCHEMA_REGISTRY_PASSWORD=SECRET).schema_registry
    assert registry.password is not None and registry.password.get_secret_value() == SECRET


def test_a_secret_is_taken_from_a_file_as_it_is_but_for_the_line_s_end() -> None:
    """Blanks may be part of it; and no variable but those of secrets reaches a table."""
    Path("secret").write_bytes(b" p\xc3\xa4ss \r\n")
    assert password(loaded(tables=f"{BARE}sasl_plain_password_file = 'secret'")) == " p\u00e4ss "
    assert "unknown environment variable" in refused(tables=BARE, EXPORTER_KAFKA_CLIENT_SASL_MECHANISM="PLAIN")


@pytest.mark.parametrize(
    ("content", "lines", "says"),
    [
        (None, "sasl_plain_password_file = 'secret'", "cannot be read: No such file"),
        (b"\n", "sasl_plain_password_file = 'secret'", "is empty"),
        (b"\xff", "sasl_plain_password_file = 'secret'", "is not UTF-8"),
        (b"x", f"sasl_plain_password_file = 'secret'\nsasl_plain_password = '{SECRET}'", "give one of them"),
    ],
)
def test_a_file_without_a_secret_is_told(content: bytes | None, lines: str, says: str) -> None:
    """By its name and the setting's; never what is in it."""
    if content is not None:
        Path("secret").write_bytes(content)
    told = refused(tables=f"{BARE}{lines}")
    assert says in told and "sasl_plain_password_file" in told and SECRET not in told


def test_every_secret_may_stand_elsewhere() -> None:
    """Of all tables, none is left out."""
    found = {f"{table}.{name}" for table, model in TABLES.items() for name in model.secrets()}
    assert found == {
        "kafka_client.ssl_password", "kafka_client.sasl_plain_password", "kafka_client.sasl_oauth_client_secret",
        "schema_registry.password", "schema_registry.token",
    }  # fmt: skip
    for table, name in (one.split(".") for one in found):
        assert f"{name}_file" in TABLES[table].model_fields


def test_without_security_clients_get_the_brokers_only() -> None:
    """The plain case stays plain."""
    assert kafka_python_options(loaded()) == {
        "bootstrap_servers": ["k1:9092", "k2:9092"],
        "security_protocol": "PLAINTEXT",
    }


def test_a_security_table_is_what_clients_are_told() -> None:
    """In kafka-python's keywords."""
    Path("ca.pem").write_text(CERTIFICATE)
    Path("me.pem").write_text(KEY + CERTIFICATE)
    lines = "ssl_cafile = 'ca.pem'\nssl_certfile = 'me.pem'\nssl_keyfile = 'me.pem'\nssl_check_hostname = false"
    assert kafka_python_options(loaded(tables=SASL + lines)) == {
        "bootstrap_servers": ["k1:9092", "k2:9092"],
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "me.pem",
        "ssl_keyfile": "me.pem",
        "ssl_check_hostname": False,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": SECRET,
    }


def test_a_keytab_is_told_by_the_service_that_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in another process, if its package is there."""
    Path("me.keytab").touch()
    settings = loaded(tables=KERBEROS.replace("nowhere.keytab", "me.keytab"))
    monkeypatch.setattr("exporter.kafka.kerberos.find_spec", lambda _: True)
    service = pickle.loads(pickle.dumps(kafka_python_options(settings)["sasl_kerberos_service_name"]))
    assert (service, service.principal) == ("kafka", "me@REALM")
    assert service.keytab == str(Path("me.keytab").absolute())
    monkeypatch.setattr("exporter.kafka.kerberos.find_spec", lambda _: None)
    with pytest.raises(ConfigError) as refused:
        kafka_python_options(settings)
    assert "kafka-delta-exporter[kerberos]" in refused.value.hint


def test_a_key_may_have_a_file_of_its_own() -> None:
    """Beside the certificate's."""
    Path("me.pem").write_text(CERTIFICATE)
    Path("key.pem").write_text(KEY)
    lines = "[kafka_client]\nsecurity_protocol = 'SSL'\nssl_certfile = 'me.pem'\nssl_keyfile = 'key.pem'"
    python = kafka_python_options(loaded(tables=lines))
    assert (python["ssl_certfile"], python["ssl_keyfile"]) == ("me.pem", "key.pem")


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ("[kafka_client]\nssl_cafile = 'ca.pem'", "ssl_cafile has no effect with security_protocol = 'PLAINTEXT'"),
        (f"[kafka_client]\nsasl_plain_password = '{SECRET}'", "sasl_plain_password has no effect"),
        (SASL.replace("SASL_SSL", "SSL"), "sasl_mechanism has no effect"),
        (SASL.replace("sasl_plain_username", "#"), "SASL needs sasl_mechanism"),
        (SASL.replace("SCRAM-SHA-512", "OAUTHBEARER"), "sasl_plain_password has no effect with sasl_mechanism"),
        (SASL + f"sasl_oauth_client_secret = '{SECRET}'", "sasl_oauth_client_secret has no effect with sasl_mechanism"),
        (KERBEROS.replace("sasl_kerberos_principal", "#"), "sasl_kerberos_keytab needs sasl_kerberos_principal"),
        (KERBEROS, "sasl_kerberos_keytab nowhere.keytab cannot be read"),
        (KERBEROS + "sasl_aws_region = 'eu-west-1'", "sasl_aws_region has no effect with sasl_mechanism = 'GSSAPI'"),
        (MSK.replace("_SSL", "_PLAINTEXT"), "AWS_MSK_IAM needs security_protocol = 'SASL_SSL'"),
        (OAUTH.replace("sasl_oauth_client_id", "#"), "OAUTHBEARER needs sasl_oauth_token_url, sasl_oauth_client_id"),
        (OAUTH.replace("https://", f"https://{SECRET}@"), "sasl_oauth_token_url should be https://host/path"),
        (OAUTH.replace("https://", "file:///"), "sasl_oauth_token_url should be https://host/path"),
        (OAUTH + "sasl_oauth_function = 'a:b'", "sasl_oauth_function gives the tokens"),
        (OAUTH.partition("sasl_oauth")[0] + "sasl_oauth_function = 'a.b'", "'a.b' should be package.module:function"),
        (SASL.replace(SECRET, SECRET + "\\n"), "control character"),
        (SASL.replace(f'"{SECRET}"', "20771117"), "[kafka_client] sasl_plain_password in exporter.toml"),
        (SASL.replace("SCRAM-SHA-512", SECRET), "should be 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'"),
        (SASL.replace("sasl_plain_password", "sasl_plain_pasword"), "did you mean sasl_plain_password?"),
        (f"[types.b]\ncolumns = 'a INT'\n[[kafka_client]]\nssl_password = '{SECRET}'", "valid dictionary"),
        (SASL + f"ssl_password = '{SECRET}'", "need ssl_certfile"),
        (SASL + "ssl_certfile = 'ca.pem'\nssl_keyfile = 'ca.pem'", "holds no PKCS#8 key"),
        (SASL + "ssl_certfile = 'key.pem'\nssl_keyfile = 'key.pem'", "ssl_certfile key.pem holds no certificate"),
        (SASL + "ssl_certfile = 'ca.pem'\nssl_keyfile = 'alone.pem'", "ssl_keyfile alone.pem holds no PKCS#8 key"),
        (SASL + "ssl_certfile = 'ca.pem'\nssl_keyfile = 'nowhere.pem'", "ssl_keyfile nowhere.pem cannot be read"),
        (SASL + "ssl_certfile = 'ca.pem'\nssl_keyfile = 'locked.pem'", "locked.pem: the key is encrypted but there is"),
        (SASL + "ssl_certfile = 'nowhere.pem'", "nowhere.pem cannot be read: No such file"),
        (SASL + "ssl_cafile = 'key.pem'", "holds no certificate"),
        (SASL + "ssl_certfile = 'ca.pem'", "holds no PKCS#8 key"),
        (SASL + "ssl_certfile = 'old.pem'", "openssl pkcs8 -topk8"),
        (SASL + f"ssl_certfile = 'me.pem'\nssl_password = '{SECRET}'", "not encrypted but has a ssl_password"),
        (SASL + "ssl_certfile = 'locked.pem'", "is encrypted but there is no ssl_password"),
        (SASL + f"ssl_certfile = 'locked.pem'\nssl_password = '{SECRET}'", "encrypted with PBES2"),
    ],
)
def test_security_that_would_not_hold_is_refused_without_showing_a_secret(tables: str, reason: str) -> None:
    """Settings without effect, half a login, and PEM files that Java cannot read."""
    Path("ca.pem").write_text(CERTIFICATE)
    Path("key.pem").write_text(KEY)
    Path("me.pem").write_text(KEY + CERTIFICATE)
    Path("alone.pem").write_text(CERTIFICATE)
    Path("old.pem").write_text(CERTIFICATE + KEY.replace("PRIVATE", "RSA PRIVATE"))
    body = base64.b64encode(bytes.fromhex("30820506092a864886f70d01050d")).decode()
    Path("locked.pem").write_text(CERTIFICATE + KEY.replace("PRIVATE", "ENCRYPTED PRIVATE").replace("MA==", body))
    message = refused(tables=tables)
    assert reason in message
    assert SECRET not in message
    assert "20771117" not in message


def test_no_secret_is_shown_where_settings_are_printed() -> None:
    """repr, str and the JSON dump of settings mask passwords."""
    settings = loaded(tables=SASL)
    for text in (repr(settings), str(settings), settings.model_dump_json()):
        assert SECRET not in text
        assert "**********" in text


def test_settings_do_not_change_once_loaded() -> None:
    """The model is frozen, its tables too."""
    settings: Any = loaded()
    with pytest.raises(ValueError, match="frozen"):
        settings.poll_secs = 5
    with pytest.raises(ValueError, match="frozen"):
        settings.kafka_client.ssl_check_hostname = False


def test_the_example_file_is_the_model() -> None:
    """deploy/exporter.example.toml is what example_toml() returns; write it again when this fails."""
    assert EXAMPLE.read_text("utf-8") == example_toml()


def test_the_example_loads_and_shows_the_defaults() -> None:
    """As it stands it is a working configuration; with every default uncommented it is the same one."""
    Path("a.toml").write_text(example_toml(), "utf-8")
    plain = load(Path("a.toml"), {}, {})
    shown = {name for name, default, _ in reference() if default and name in SCALARS}
    scalars, table, tables = example_toml().partition("\n[")
    text = re.sub(r"^# (\w+) = ", lambda m: f"{m[1]} = " if m[1] in shown else m[0], scalars, flags=re.M)
    Path("b.toml").write_text(f"{text}{table}{tables}", "utf-8")
    full = load(Path("b.toml"), {}, {})
    assert full.model_dump() == plain.model_dump()
    assert {name for name in SCALARS if full.origin(name) == "default"} == {
        "app", "topics_pattern", "partitions", "key_column", "headers_column", "timestamp_type_column", "wal_table",
        "wal_mode", "wal_endpoint", "s3_endpoint", "s3_region", "parquet_compression", "catalog", "catalog_database",
        "catalog_uri", "catalog_token_file", "driver_host", "worker_python", "worker_archive",
        "derive_cron", "control_topic", "events_topic", "events_webhook",
    }  # fmt: skip


def test_the_reference_lists_every_setting_with_a_sentence() -> None:
    """Nothing can be set that the reference does not explain."""
    names = [name for name, _, _ in reference()]
    fields = list(SCALARS)
    for table, model in TABLES.items():
        shown = f"{table}.<{NAMED[table]}>" if table in NAMED else table
        fields += [shown] if table == "topic_formats" else [f"{shown}.{name}" for name in model.model_fields]
    fields += [f"derive.<{kind}>.{name}" for kind, model in KINDS.items() for name in model.model_fields]
    fields += sorted(FREE)
    assert names == fields
    assert all(re.fullmatch(r"[A-Z].{15,}\.", description) for _, _, description in reference())
    assert ("brokers", "required") in [row[:2] for row in reference()]


def test_names_end_in_the_unit_that_their_description_tells() -> None:
    """_secs, _ms, _bytes_max and _records_max say what they count."""
    units = {"_secs": "Seconds", "_ms": "Milliseconds", "_bytes_max": "Bytes", "_records_max": "Records"}
    units |= {"_days": "Days"}
    for name, _, description in reference():
        for suffix, unit in units.items():
            if name.endswith(suffix):
                assert description.startswith(unit), name


def test_a_log_is_required_where_there_is_a_table_for_it_unless_told_otherwise() -> None:
    """wal_mode follows wal_table; what would need a table is refused without one."""
    table = "wal_table = 'exporter-wal'\n"
    assert loaded().wal_mode == "off"
    assert loaded(table).wal_mode == loaded(table, EXPORTER_WAL_MODE="").wal_mode == "required"
    assert loaded(table + "wal_mode = 'best_effort'").wal_mode == "best_effort"
    assert loaded(table + "wal_mode = 'off'").wal_mode == loaded("wal_mode = 'off'").wal_mode == "off"
    assert loaded(table + "wal_endpoint = 'http://[::1]:8000'").wal_endpoint == "http://[::1]:8000"
    for mode in ("required", "best_effort"):
        assert "needs wal_table" in refused(f"wal_mode = '{mode}'")
    assert "has no effect without wal_table" in refused("wal_endpoint = 'http://localhost:8000'")


@pytest.mark.parametrize(
    "line",
    ["wal_table = 'a b'", "wal_table = 'ab'", "wal_mode = 'on'", "wal_endpoint = 'localhost:8000'",
     "wal_endpoint = 'http://h:1/x'", "lease_secs = 1", "lease_secs = 3601"],
)  # fmt: skip
def test_a_setting_of_the_log_that_cannot_be_is_refused_by_its_name(line: str) -> None:
    """The message names the setting that is wrong."""
    table = "" if line.startswith("wal_table") else "wal_table = 'exporter-wal'\n"
    assert line.split(" ")[0] in refused(table + line).split("\n")[0]


def test_a_command_gets_one_flag_per_scalar() -> None:
    """click_options hands over what was given and nothing else, so that the environment and the file still count."""
    seen: list[tuple[Path | None, dict[str, str], str]] = []

    @click.command()
    @click.option("--app-id", default="mine")
    @click_options(SCALARS)
    def verb(config: Path | None, flags: dict[str, str], app_id: str) -> None:
        """A verb."""
        seen.append((config, flags, app_id))

    runner = CliRunner()
    assert runner.invoke(verb, ["--roll-age-max-secs", "5", "--config", "x.toml"]).exit_code == 0
    assert runner.invoke(verb, []).exit_code == 0
    assert seen == [(Path("x.toml"), {"roll_age_max_secs": "5"}, "mine"), (None, {}, "mine")]
    shown = runner.invoke(verb, ["--help"]).output
    assert all(f"{flag(name)} VALUE" in shown for name in SCALARS)
    assert "A verb." in shown


def test_problems_of_each_kind_are_told_together_in_the_order_of_the_settings() -> None:
    """A value that is wrong by itself hides none that does not go with others, but for those that it belongs to."""
    lines = "heartbeat_secs = true\nstaged_bytes_max = 60\nwal_mode = 'required'\nwal_endpoint = 'http://h:1'\n"
    message = refused(lines + "assignment = 'static'")
    told = re.findall(r"^\s*(\w+) (?:\(default\)|= .* in exporter\.toml): ", message, re.MULTILINE)
    assert told == ["partitions", "heartbeat_secs", "staged_bytes_max", "wal_mode", "wal_endpoint"]
    hidden = refused("roll_bytes_max = true\nstaged_bytes_max = 60\nwal_table = 'a b'\nwal_mode = 'required'")
    assert "2 problems" in hidden


def test_a_rule_between_settings_needs_all_of_them() -> None:
    """Each names settings that exist, and blames one of those that it compares."""
    for rule in RULES:
        assert {rule.blames} <= {*rule.needs} <= Settings.model_fields.keys()
    assert list(broken({"staged_bytes_max": 1})) == []
    assert list(broken({"staged_bytes_max": 1, "roll_bytes_max": 2})) == [
        ("staged_bytes_max", "should not be less than roll_bytes_max, which could never be reached")
    ]
