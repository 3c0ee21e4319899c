"""Settings of formats: what they mean, what cannot go together, and what stays as it was."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from exporter.core.columns import NO_COLUMNS
from exporter.core.evolve import Evolution
from exporter.core.record_columns import RecordColumns
from exporter.core.routing import RAW_COLUMNS, EventTime, Routing, TypeFrom
from exporter.core.value_format import JSON, ValueFormat
from exporter.errors import ConfigError
from exporter.settings.meaning import evolutions, own_names, record_columns, routing
from exporter.settings.model import Settings
from exporter.settings.view import MASKED, setting_rows
from exporter.workbench import checked_routing, registry_options
from tests.support import settings as settings_files
from tests.support.settings import PLAIN

SECRET = "hunter2-very-secret"
TYPES, BARE = settings_files.ORDER, "[types.order]\n"
REGISTRY = '[schema_registry]\nurls = ["http://localhost:8081"]\n'
GLUE = '[schema_registry]\nkind = "glue"\n'
AVRO = '[value_format]\nkind = "avro"\n'
RAW = '[value_format]\nkind = "bytes"\n'
DECLARED = {"order": '{"fields":[{"metadata":{},"name":"id","nullable":true,"type":"long"}],"type":"struct"}'}


def loaded(tables: str, scalars: str = "", plain: str = PLAIN) -> Settings:
    return settings_files.loaded(scalars, tables, plain=plain)


def refused(tables: str, scalars: str = "", plain: str = PLAIN) -> str:
    return settings_files.refused(scalars, tables, plain=plain)


def test_json_is_the_format_where_nothing_is_said_and_the_configuration_is_as_before() -> None:
    """A file without these tables gives the routing, and so the fingerprint, that it always gave."""
    made = routing(loaded(TYPES), DECLARED)
    assert made.value_format == JSON
    assert made.topic_formats == ()
    assert not {"value_format", "topic_formats", "registry"} & {*json.loads(made.to_json())}


@pytest.mark.parametrize("kind", ["avro", "json_schema", "protobuf"])
def test_glue_s_registry_has_glue_s_frame_and_the_kind_of_a_registry_is_no_part_of_a_configuration(kind: str) -> None:
    """What is said of Confluent's as its default changes nothing; Glue's frame does, whatever region it is of."""
    table = f'[value_format]\nkind = "{kind}"\n'
    confluent, said = (loaded(table + REGISTRY + more + BARE) for more in ("", 'kind = "confluent"\n'))
    region = 'region = "eu-north-1"\nregistry_name = "shop"\n'
    glue, other = (loaded(table + GLUE + more + BARE) for more in ("", region))
    assert routing(confluent, {}) == routing(said, {}) and routing(glue, {}) == routing(other, {})
    assert [routing(one, {}).value_format.frame for one in (confluent, glue)] == ["confluent", "glue"]
    assert routing(confluent, {}).fingerprint() != routing(glue, {}).fingerprint()
    options = registry_options(other)
    assert (options.kind, options.region, options.registry_name) == ("glue", "eu-north-1", "shop") and options.is_there
    assert '"frame":"glue"' in routing(glue, {}).to_json().replace(" ", "")
    assert Routing.from_json(routing(glue, {}).to_json()) == routing(glue, {})


def test_json_with_declared_columns_needs_no_registry_behind_a_frame() -> None:
    """Of either kind: it is cut off."""
    for frame in ("confluent", "glue"):
        made = routing(loaded(f'[value_format]\nframe = "{frame}"\n{TYPES}'), DECLARED)
        assert made.value_format == replace(JSON, frame=frame) and not made.has_ids  # type: ignore[arg-type]


def test_a_field_is_what_json_was_in_both_spellings() -> None:
    """`field` and `json` are one configuration with one fingerprint."""
    texts = [
        f'[type_from]\nkind = "{kind}"\nname = "a.b"\n[event_time]\nkind = "{kind}"\npath = "at"\n'
        for kind in ("field", "json")
    ]
    one, other = (routing(loaded(TYPES, plain=text), DECLARED) for text in texts)
    assert one == other
    assert (one.type_from, one.event_time) == (TypeFrom("json", "a.b"), EventTime("json", "at"))


def test_the_name_of_a_schema_is_full_unless_it_is_asked_to_be_short() -> None:
    """Both ways to say full are one configuration."""
    for name, stored in (("", ""), ("full", ""), ("short", "short")):
        plain = f'[type_from]\nkind = "schema"\nname = "{name}"\n[event_time]\nkind = "record"\n'
        assert loaded(AVRO + REGISTRY + BARE, plain=plain).type_from.meant == TypeFrom("schema", stored)
    plain = '[type_from]\nkind = "schema"\nname = "long"\n[event_time]\nkind = "record"\n'
    assert "name should be full or short" in refused(AVRO + REGISTRY + BARE, plain=plain)


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json_schema"])
def test_with_a_registry_values_have_its_frame_unless_it_is_said_otherwise(kind: str) -> None:
    """What has schemas is framed, and nothing else."""
    made = routing(loaded(f'[value_format]\nkind = "{kind}"\n{REGISTRY}{BARE}'), {})
    assert made.value_format.frame == "confluent"
    assert made.value_format.has_ids
    assert made.schemas == {"order": '{"fields":[],"type":"struct"}'}
    topics = f'[topic_formats."x.*"]\nkind = "{kind}"\n{REGISTRY}{TYPES}'
    mixed = routing(loaded(topics), DECLARED)
    assert mixed.format_of("events") == JSON
    assert mixed.format_of("xy").frame == "confluent"
    assert mixed.format_of("yx") == JSON


def test_schema_files_are_kept_by_their_names_and_not_by_their_places() -> None:
    """Their content is part of the configuration, laid out in one way; their folder is not."""
    Path("a").mkdir()
    Path("a/b.avsc").write_text('{"type" : "record",\n "name": "B", "fields": []}')
    Path("a.avsc").write_text('"string"')
    files = '[value_format]\nkind = "avro"\nmessage = "B"\nschema_files = ["a/b.avsc", "a.avsc"]\n'
    form = routing(loaded(files + BARE), {}).value_format
    assert form == ValueFormat(
        "avro", message="B", schemas=(("a.avsc", '"string"'), ("b.avsc", '{"type":"record","name":"B","fields":[]}'))
    )
    Path("x.desc").write_bytes(b"\x01\xff")
    form = routing(loaded('[value_format]\nkind = "protobuf"\nschema_files = ["x.desc"]\n' + BARE), {}).value_format
    assert form.schemas == (("x.desc", base64.b64encode(b"\x01\xff").decode()),)


def test_a_proto_file_is_compiled_with_all_that_it_imports() -> None:
    """Names of imports count from a folder above the file; what is not there is told."""
    pytest.importorskip("grpc_tools")
    Path("protos/shop/common").mkdir(parents=True)
    Path("protos/shop/order.proto").write_text(
        'syntax = "proto3"; // import "no.proto"; import "none.proto";\n'
        'package shop; import "google/protobuf/timestamp.proto"; import "shop/common/money.proto";\n'
        "message Order { Money total = 1; google.protobuf.Timestamp at = 2; }\n"
    )
    money = Path("protos/shop/common/money.proto")
    money.write_text('syntax = "proto3";\npackage shop;\nmessage Money { int64 cents = 1; }\n')
    tables = '[value_format]\nkind = "protobuf"\nschema_files = ["protos/shop/order.proto"]\n' + BARE
    ((name, text),) = routing(loaded(tables), {}).value_format.schemas
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text)).file
    assert name == "order.proto"
    assert {file.name for file in files} == {
        "order.proto", "shop/common/money.proto", "google/protobuf/timestamp.proto"
    }  # fmt: skip
    money.unlink()
    assert "it imports 'shop/common/money.proto', which is neither beside it nor" in refused(tables)
    money.write_text("message")
    assert "order.proto does not compile" in refused(tables)


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        (RAW + 'envelope = "dms"\n', "envelope has no effect with kind = bytes"),
        (RAW + 'frame = "confluent"\n', "frame should be none with kind = bytes"),
        (RAW + 'schema_files = ["a.avsc"]\n', "schema_files has no effect with kind = bytes"),
        (RAW + 'semantic_types = "connect"\n', "semantic_types has no effect with kind = bytes"),
        ('[value_format]\nbefore = ["id"]\n', "before has no effect with kind = json and envelope = none"),
        (AVRO + 'envelope = "debezium_mongo"\nbefore = ["id"]\n' + REGISTRY, "and envelope = debezium_mongo"),
        ('[value_format]\nkind = "protobuf"\nframe = "single_object"\n', "frame should be none or confluent"),
        (AVRO + 'message = "A"\n' + REGISTRY, "message needs schema_files"),
        (AVRO + 'schema_files = ["a.proto"]\n', "should end in .avsc"),
        (AVRO + 'schema_files = ["a/x.avsc", "b/x.avsc"]\n', "two files have one name"),
        (AVRO + 'schema_files = ["no.avsc"]\n', "no.avsc cannot be read: No such file"),
        (AVRO + 'schema_files = ["exporter.avsc"]\n', "exporter.avsc is no JSON"),
        ('[value_format]\nkind = "json_schema"\nschema_files = ["a.json"]\nframe = "confluent"\n' + REGISTRY,
         "schema_files has no effect with kind = json_schema and frame"),
        (AVRO, "[value_format] in exporter.toml: needs schema_files, or [schema_registry] urls"),
        (AVRO + 'frame = "confluent"\n', "frame = confluent needs [schema_registry] urls"),
        (AVRO + 'frame = "glue"\n', "frame = glue needs [schema_registry] kind = glue"),
        (AVRO + 'frame = "glue"\n' + REGISTRY, "frame = glue needs [schema_registry] kind = glue"),
        (AVRO + 'frame = "confluent"\n' + GLUE, "frame = confluent needs [schema_registry] urls"),
        ('[value_format]\nframe = "glue"\nenvelope = "debezium"\n', "envelope needs kind = json_schema"),
        ('[value_format]\nframe = "confluent"\nenvelope = "dms"\n', "envelope needs kind = json_schema"),
        (GLUE, "has no effect: no format is one of avro, protobuf, json_schema with frame = glue"),
        (AVRO + GLUE + 'urls = ["http://a:1"]\n', "urls has no effect with kind = glue"),
        (AVRO + GLUE + 'token = "abcdefgh"\n', "token has no effect with kind = glue"),
        (AVRO + REGISTRY + 'region = "eu-north-1"\n', "region has no effect with kind = confluent"),
        (AVRO + GLUE + 'endpoint_url = "glue"\n', "should be http://host:port"),
        (AVRO + 'kinds = "a"\n' + REGISTRY, "did you mean kind?"),
        ('[topic_formats."("]\nkind = "json"\n', "'(' is no regular expression"),
        ('[topic_formats.a]\nkind = "avro"\n', "'a': needs schema_files"),
        ('[topic_formats.a]\nkind = "xml"\n', "[topic_formats.a] kind in exporter.toml: should be"),
        (REGISTRY, "has no effect: no format is one of avro, protobuf, json_schema"),
        ('[schema_registry]\nname = "a"\n', "name has no effect without urls"),
        (AVRO + '[schema_registry]\nurls = ["localhost:8081"]\n', "each should be http://host:port"),
        (AVRO + REGISTRY + 'name = "a/b"\n', "letters, digits, _ and - only"),
        (AVRO + REGISTRY + f'password = "{SECRET}"\n', "username and password need each other"),
        (AVRO + REGISTRY + f'username = "a"\npassword = "{SECRET}"\ntoken = "b"\n', "either username and password or"),
        (AVRO + REGISTRY + f'token = "{SECRET}\\n"\n', "holds a control character"),
        (AVRO + REGISTRY + 'key_file = "a.pem"\n', "key_file needs cert_file"),
        (AVRO + REGISTRY + 'ca_file = "a.pem"\n', "ca_file has no effect without an https:// address"),
        (AVRO + REGISTRY.replace("http:", "https:") + 'ca_file = "a.pem"\n', "a.pem cannot be read"),
        (AVRO + REGISTRY.replace("http:", "https:") + 'ca_file = "exporter.toml"\n', "holds no certificate"),
    ],
)  # fmt: skip
def test_what_cannot_go_together_is_refused_by_its_name(tables: str, reason: str) -> None:
    """Each is told with what to change, and no secret is."""
    Path("exporter.avsc").write_text("{")
    Path("a.avsc").write_text("{}")
    message = refused(tables + TYPES)
    assert reason in message
    assert SECRET not in message


@pytest.mark.parametrize(
    ("plain", "tables", "reason"),
    [
        ('[type_from]\nkind = "field"\nname = "a"\n', RAW, "a value of kind = bytes has no fields"),
        ('[type_from]\nkind = "schema"\n', "", "a value of kind = json names no schema"),
        ('[type_from]\nkind = "source"\n', "", "source needs an envelope"),
        ('[type_from]\nkind = "source"\nname = "a"\n', '[value_format]\nenvelope = "dms"\n', "name is not used"),
        ('[type_from]\nkind = "source"\n', '[value_format]\nenvelope = "dms"\n[topic_formats.a]\n', "source needs"),
    ],
)
def test_an_event_type_that_the_values_do_not_say_is_refused(plain: str, tables: str, reason: str) -> None:
    """Each format has to have what it is taken from."""
    assert reason in refused(tables + TYPES, plain=plain + '[event_time]\nkind = "record"\n')


def test_a_time_in_a_field_is_refused_where_values_have_none() -> None:
    """Text and bytes have the record's time."""
    plain = '[type_from]\nkind = "topic"\n[event_time]\nkind = "field"\npath = "at"\n'
    assert "kind should be record" in refused(RAW + BARE, plain=plain)


def test_columns_may_be_left_out_where_a_schema_or_the_format_says_what_is_in_a_value() -> None:
    """Of Avro the schema; of bytes there is one column; of JSON nothing does."""
    assert "order needs columns or columns_file, or evolve = add" in refused(BARE)
    assert routing(loaded(RAW + BARE), {}).schemas == {"order": RAW_COLUMNS["bytes"]}
    made = routing(loaded(RAW + BARE, 'new_type = "table"\n'), {})
    assert made.columns_of("anything") == RAW_COLUMNS["bytes"]
    mixed = routing(loaded('[topic_formats."logs.*"]\nkind = "string"\n' + BARE + "[types.logs]\n"), {})
    assert mixed.schemas == {"order": NO_COLUMNS.replace('"type":"struct","fields":[]', '"fields":[],"type":"struct"'),
                             "logs": RAW_COLUMNS["string"]}  # fmt: skip


def test_raw_values_have_one_column_and_no_other() -> None:
    """It may be declared as text or as bytes."""
    for columns, fits in (("value BINARY", True), ("value STRING", True), ("value STRING, id BIGINT", False)):
        names = [part.split()[0] for part in columns.split(", ")]
        fields = [{"metadata": {}, "name": name, "nullable": True, "type": "string"} for name in names]
        settings = loaded(RAW + f'[types.order]\ncolumns = "{columns}"\n')
        schemas = {"order": json.dumps({"type": "struct", "fields": fields})}
        if fits:
            assert checked_routing(settings, schemas).value_format.kind == "bytes"
        else:
            with pytest.raises(ConfigError, match="is the column `value` and has no other"):
                checked_routing(settings, schemas)


def test_only_types_without_declared_columns_get_those_of_a_schema() -> None:
    """And nothing that is only seen, unless they are told to grow."""
    tables = AVRO + REGISTRY + TYPES + "[types.bare]\n[types.growing]\nevolve = 'add'\n"
    found = evolutions(loaded(tables), {})
    assert found.of("order") is None
    assert found.of("bare") == Evolution(infers=False)
    assert found.of("growing") == Evolution()
    assert found.of("other") is None
    assert evolutions(loaded(tables, 'new_type = "table"\n'), {}).of("other") == Evolution(infers=False)
    connect = '[value_format]\nkind = "connect_json"\n' + TYPES
    assert evolutions(loaded(connect, 'new_type = "table"\n'), {}).of("other") == Evolution(infers=False)
    ignoring = 'new_type = "table"\nunknown_fields = "ignore"\n'
    assert evolutions(loaded(connect, ignoring), {}).of("other") is None
    assert "should be rescue where columns come from schemas" in refused(
        AVRO + REGISTRY + BARE, 'unknown_fields = "ignore"\n'
    )
    assert evolutions(loaded(AVRO + REGISTRY + TYPES, 'unknown_fields = "ignore"\n'), {}).of("order") is None


def test_columns_of_the_record_have_names_that_nothing_else_can_have() -> None:
    """They are told from each other, from ours, and from columns that cut tables; no fingerprint has them."""
    own = 'key_column = "_key"\nheaders_column = "_headers"\ntimestamp_type_column = "kind_of_time"\n'
    settings = loaded(TYPES, own)
    assert record_columns(settings) == RecordColumns("_key", "_headers", "kind_of_time")
    assert own_names(settings) == ("_key", "_headers", "kind_of_time")
    assert routing(settings, DECLARED) == routing(loaded(TYPES), DECLARED)
    assert own_names(loaded('[value_format]\nenvelope = "dms"\n' + TYPES)) == ("_cdc",)
    for name in ("_kafka", "_rescued", "day", "Hour", "_cdc", "a.b", "a b"):
        assert "cannot be the name of a column" in refused(TYPES, f'key_column = "{name}"\n')
    assert "need names of their own" in refused(TYPES, 'key_column = "A"\nheaders_column = "a"\n')


def test_no_secret_of_a_registry_is_shown() -> None:
    """Password and token are masked where settings are shown."""
    for secret in (f'username = "u"\npassword = "{SECRET}"\n', f'token = "{SECRET}"\n'):
        settings = loaded(AVRO + REGISTRY + secret + BARE)
        rows = {row.name: row.value for row in setting_rows(settings)}
        assert MASKED in (rows["schema_registry.password"], rows["schema_registry.token"])
        assert SECRET not in f"{rows}{settings!r}{settings.model_dump_json()}"
