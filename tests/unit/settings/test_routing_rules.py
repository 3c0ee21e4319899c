"""Settings of routing and shapes: what they mean, and that what cannot be meant is refused before anything is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exporter.core.decoder_version import EMPTY_FLAGS
from exporter.core.routing import Routing
from exporter.core.shapes import Rename
from exporter.errors import ConfigError
from exporter.settings.meaning import routing
from exporter.settings.model import Settings
from exporter.settings.view import setting_rows
from exporter.workbench import checked_routing, schemas_of
from tests.support import settings as settings_files

TABLES = """[type_from]
kind = "field"
name = "type"
[event_time]
kind = "record"
"""
ORDER = "[types.order]\ncolumns = 'id BIGINT, mail STRING, amount DOUBLE, day DATE'\n"


def columns(*names: str) -> str:
    """Spark schema JSON of columns, each a text but those called id, amount and day."""
    kinds = {"id": "long", "amount": "double", "day": "date"}
    fields = [{"metadata": {}, "name": one, "nullable": True, "type": kinds.get(one, "string")} for one in names]
    return json.dumps({"type": "struct", "fields": fields}, sort_keys=True, separators=(",", ":"))


DECODED = columns("id", "mail", "amount", "day")


def loaded(types: str = ORDER, scalars: str = "", rename: str = "") -> Settings:
    return settings_files.loaded(scalars, types, plain=TABLES.replace("[event_time]", rename + "[event_time]"))


def meant(types: str = ORDER, scalars: str = "", rename: str = "", **more: Any) -> Routing:
    settings = loaded(types, scalars, rename)
    return checked_routing(settings, dict.fromkeys(settings.declared, DECODED), **more)


def refused(types: str = ORDER, scalars: str = "", rename: str = "", **more: Any) -> str:
    """What the person sees, hints included."""
    with pytest.raises(ConfigError) as caught:
        meant(types, scalars, rename, **more)
    assert caught.value.exit_code == 2
    return f"{caught.value.message}; {caught.value.hint}"


def names_of(schema: str) -> list[str]:
    return [one["name"] for one in json.loads(schema)["fields"]]


def test_without_rules_the_stored_configuration_is_what_it_was() -> None:
    """No word of them, so no fingerprint changes."""
    stored = json.loads(meant(ORDER.replace(", day DATE", "")).to_json())
    assert {"renames", "matches", "unrouted", "shapes", "constants"}.isdisjoint(stored)
    spelled = meant(ORDER + 'match = ""\nwhere = ""\ncase = "exact"\ndrop = ["day"]\n', 'unrouted = "dead_letter"\n')
    assert {"renames", "matches", "unrouted", "constants"}.isdisjoint(json.loads(spelled.to_json()))


def test_rules_for_event_types_are_meant_as_they_are_written() -> None:
    """Renames in their order, matches by type, the table for what no other takes."""
    found = meant(
        ORDER + "drop = ['day']\nmatch = 'order.*'\n" + ORDER.replace("order", "rest") + "drop = ['day']\n",
        'unrouted = "rest"\n',
        '[[type_from.rename]]\nmatch = "old[.](?P<name>.*)"\nto = "${name}"\n'
        '[[type_from.rename]]\nmatch = "(.)_(.*)"\nto = "$2${1}0$$"\n',
    )
    assert found.renames == (Rename("old[.](?P<name>.*)", "${name}"), Rename("(.)_(.*)", "$2${1}0$$"))
    assert found.matches == (("order", "order.*"),)
    assert found.unrouted == "rest"
    assert found.tables_of("old.order_placed") == ("order",)
    assert found.tables_of("x_order") == ("order",) and found.tables_of("old.x_order") == ()
    assert Routing.from_json(found.to_json()) == found


def test_what_is_declared_is_decoded_and_what_is_kept_is_the_tables() -> None:
    """A column that is dropped is decoded all the same; a constant is in each table, whatever it holds."""
    types = ORDER + "drop = ['day']\n[constants]\ncluster = 'east'\nzone = 3\ntest = true\nshare = 0.5\n"
    found = meant(types)
    assert found.decoded_of("order") == DECODED
    assert names_of(found.columns_of("order")) == ["id", "mail", "amount", "cluster", "zone", "test", "share"]
    kinds = [one["type"] for one in json.loads(found.columns_of("order"))["fields"]]
    assert kinds[3:] == ["string", "long", "boolean", "double"]
    assert Routing.from_json(found.to_json()) == found


def test_the_rows_of_shaping_stand_in_what_is_shown() -> None:
    """`exporter config` tells them as the file writes them."""
    rename = '[[type_from.rename]]\nmatch = "a(.*)"\nto = "$1"\n'
    settings = loaded(ORDER + "where = 'id > 0'\nnames = { id = 'a.id' }\n[constants]\ncluster = 'east'\n", "", rename)
    rows = {row.name: row.value for row in setting_rows(settings)}
    assert rows["type_from.rename"] == '[{ "match" = "a(.*)", "to" = "$1" }]'
    assert rows["types.order.where"] == '"id > 0"'
    assert rows["types.order.names"] == '{ "id" = ["a.id"] }'
    assert rows['constants."cluster"'] == '"east"'


@pytest.mark.parametrize(
    ("rename", "reason"),
    [
        ('match = "(a"\nto = "x"', "[type_from] rename 0 in exporter.toml: match: '(a' is no regular expression"),
        ('match = "a"\nto = ""', "to is empty"),
        ('match = "(a)"\nto = "$2"', "names a group that '(a)' does not have: $2"),
        ('match = "(?P<n>a)"\nto = "${m}"', "does not have: ${m}"),
        ('match = "(?P<n>a)"\nto = "${12}"', "does not have: ${12}"),
        ('match = "a"', "[type_from] rename 0 to is missing"),
    ],
)
def test_a_rename_that_cannot_be_is_refused(rename: str, reason: str) -> None:
    """With the rule's number and what is wrong with it."""
    assert reason in refused(rename=f"[[type_from.rename]]\n{rename}\n")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("match = '[a'", "[types.order] match in exporter.toml: '[a' is no regular expression"),
        ("where = ' '", "where in exporter.toml: should be an expression, or not be there"),
        ("set = { m = ' ' }", "m should be an expression"),
        ("set = { _rescued = '1' }", "'_rescued': the exporter writes a column of that name itself"),
        ("set = { '_kafka.x' = '1' }", "'_kafka.x': no column can be called so"),
        ("set = { 'a b' = '1' }", "'a b': no column can be called so"),
        ("set = { a = '1', A = '2' }", "names a column twice"),
        ("drop = ['day', 'Day']", "names a column twice"),
        ("drop = ['_kafka']", "'_kafka': the exporter writes a column of that name itself"),
        ("drop = ['mail']\nset = { mail = '1' }", "mail is computed and dropped"),
        ("drop = ['city']", "types.order.drop: there is no column 'city'; there are: id, mail, amount, day"),
        ("names = { city = 'a.b' }", "column 'city': `names` mentions it, and there is no such column; there are: id"),
        ("names = { id = 'a..b' }", "should be a dotted path"),
        ("names = { id = [] }", "id should have paths, each once"),
        ("names = { id = ['a', 'a'] }", "id should have paths, each once"),
        ("case = 'any'", "should be 'exact' or 'insensitive'"),
        ("python = 'rules'", "'rules' should be package.module:function"),
        ("python = 'a.b:c'", "python needs python_version"),
        ("python_version = '1'", "python_version has no effect without python"),
        ("python_columns = 'x INT'", "python_columns has no effect without python"),
        ("drop = ['day', 'mail']\npartition_columns = ['mail']", "there is no such column at the top level"),
        ("where = 'id > 0'", "'day': the exporter writes a column of that name itself"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(line: str, reason: str) -> None:
    """By the place of what is wrong, and with what there is instead."""
    assert reason in refused(f"{ORDER}{line}\n")


@pytest.mark.parametrize("line", ["where = 'true'", "set = { a = '1' }", "drop = ['a']", "names = { a = 'b' }"])
def test_what_speaks_of_columns_needs_declared_ones(line: str) -> None:
    """A verdict must not go by what a table has meanwhile; the hint says where they can be had from."""
    told = refused(f"[types.order]\nevolve = 'add'\n{line}\n")
    assert f"order.{line.split(' ')[0]} needs declared columns: columns or columns_file" in told
    assert "exporter schema" in told


def test_a_function_is_called_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, takes rows and returns what the settings say; a table has its columns, a value does not."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shop_rules.py").write_text(
        "import pyarrow as pa\ndef priced(rows):\n"
        "    return rows.append_column('x', pa.array(['y'] * len(rows), pa.string())), None\n"
    )
    types = ORDER + "drop = ['day']\npython = 'shop_rules:priced'\npython_version = '1'\npython_columns = 'x STRING'\n"
    found = meant(types, added={"order": columns("x")})
    assert found.decoded_of("order") == DECODED
    assert found.shape_by_type["order"].python_columns == columns("x")
    assert names_of(found.columns_of("order")) == ["id", "mail", "amount", "x"]
    assert "types.order.python_columns: 'ID' is declared too" in refused(types, added={"order": columns("ID")})
    assert "types.order, python: shop_rules:priced fails" in refused(types, added={"order": columns("y")})
    told = refused(types.replace("shop_rules", "no_such_rules"), added={"order": columns("x")})
    assert "cannot be imported" in told and "install the package where the exporter runs" in told


def test_sql_that_cannot_be_is_refused_of_all_types_at_once() -> None:
    """Before anything is read: what does not parse, what is no column, what depends on more than the row."""
    one, other = ORDER + "drop = ['day']\nset = { a = 'id +' }\n", ORDER.replace("order", "click")
    told = refused(one + other + "drop = ['day']\nwhere = 'random() > id'\n")
    assert told.startswith("2 event types cannot be shaped as the settings say:")
    assert "types.order, set.a: " in told and "types.click, where: random() " in told
    assert "there is no column town" in refused(ORDER + "drop = ['day']\nwhere = 'town = 1'\n")
    assert "id is there too, and Spark" in refused(ORDER + "drop = ['day']\nset = { ID = 'id + 1' }\n")


def test_a_computed_column_takes_the_place_of_one_or_comes_behind_and_may_cut_a_table() -> None:
    """With the type of its expression; what it is made of is decoded as it is declared."""
    lines = "drop = ['day']\nset = { mail = 'length(mail)', big = 'amount > 9' }\npartition_columns = ['big']\n"
    found = meant(ORDER + lines)
    fields = [(one["name"], one["type"]) for one in json.loads(found.columns_of("order"))["fields"]]
    assert fields == [("id", "long"), ("mail", "long"), ("amount", "double"), ("big", "boolean")]
    assert found.decoded_of("order") == DECODED


@pytest.mark.parametrize(
    ("scalars", "reason"),
    [
        ('unrouted = "other"\n', "should be dead_letter, count or a declared event type: order"),
        ('unrouted = "dead_letters"\n', "should be dead_letter: their table is no type's"),
    ],
)
def test_records_that_no_table_takes_go_to_a_table_that_there_is(scalars: str, reason: str) -> None:
    """Or to the dead letters, or are counted."""
    assert reason in refused(ORDER, scalars)
    assert "is the name of an event type too" in refused(ORDER.replace("order", "count"), 'unrouted = "count"\n')


@pytest.mark.parametrize(
    ("constants", "reason"),
    [
        ("_kafka = 1", "'_kafka' cannot be the name of a column"),
        ("hour = 1", "'hour' cannot be the name of a column"),
        ("a = 1979-05-27", "a should be a text, a number, true or false"),
        ("a = [1]", "a should be a text, a number, true or false"),
        ("a = 9223372036854775808", "a is no number of 64 bits"),
        ("a = inf", "a should be a number"),
        ("a = 1\nA = 2", "'A' is another one too"),
        ("K = 1", "'K' is a column of the record too"),
        ("mail = 'x'", "types.order, column 'mail': mail is there too, and Spark and Delta ignore case"),
    ],
)
def test_a_constant_that_cannot_be_is_refused(constants: str, reason: str) -> None:
    """By its name or by what it is."""
    scalars = 'key_column = "k"\n'
    assert reason in refused(ORDER + f"drop = ['day']\n[constants]\n{constants}\n", scalars)


def test_raw_values_have_a_column_that_no_constant_takes() -> None:
    """Whatever else a table of theirs has."""
    types = "[value_format]\nkind = 'string'\n[types.order]\n[constants]\n"
    told = settings_files.refused(tables=types + "value = 1\n", plain=settings_files.PLAIN)
    assert "'value' is the column of raw values too" in told
    found = routing(settings_files.loaded(tables=types + "cluster = 'east'\n", plain=settings_files.PLAIN), {})
    assert names_of(found.columns_of("order")) == ["value", "cluster"]
    assert names_of(found.decoded_of("order")) == ["value"]
    assert names_of(found.columns_of("other")) == ["value", "cluster"]


def test_a_decoded_column_may_have_a_name_that_the_table_cannot_have_if_it_is_dropped() -> None:
    """`day` of a value, where tables are cut by day: what the table has is what counts."""
    (decoded,) = schemas_of(loaded(ORDER + "drop = ['day']\n")).values()
    assert json.loads(decoded) == json.loads(DECODED)
    with pytest.raises(ConfigError, match="column 'day': the exporter writes"):
        schemas_of(loaded())


def test_a_constant_may_cut_tables() -> None:
    """As any other column that a table has."""
    settings = loaded(ORDER + "drop = ['day']\npartition_columns = ['zone']\n[constants]\nzone = 3\n")
    found = checked_routing(settings, schemas_of(settings))
    assert names_of(found.columns_of("order"))[-1] == "zone"
    plain = loaded(ORDER.replace(", day DATE", "") + "partition_columns = ['zone']\n[constants]\nzone = 3\n")
    assert checked_routing(plain, schemas_of(plain)).decoded_of("order") == columns("id", "mail", "amount")
    with pytest.raises(ConfigError, match="column of this type cannot cut"):
        settings = loaded(ORDER + "drop = ['day']\npartition_columns = ['zone']\n[constants]\nzone = 0.5\n")
        checked_routing(settings, schemas_of(settings))


def test_the_order_of_types_in_the_file_is_no_part_of_the_configuration() -> None:
    """Else a file that is put in order would drain and seal every table."""
    one, other = (ORDER.replace("order", name) + f"match = '{name}.*'\ndrop = ['day']\n" for name in ("a", "b"))
    assert meant(one + other).fingerprint() == meant(other + one).fingerprint()


def test_a_values_verdict_goes_by_what_is_decoded_and_not_by_what_is_kept() -> None:
    """The decoder's version is that of the columns that values are read into, also where a table drops them."""
    settings = loaded("[types.order]\ncolumns = 'id INT, s STRUCT<b BOOLEAN NOT NULL>'\ndrop = ['s']\n")
    assert checked_routing(settings, schemas_of(settings)).decoder_version == EMPTY_FLAGS
