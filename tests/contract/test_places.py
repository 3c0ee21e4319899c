"""What tests look at lakes with is the same on a folder and on a bucket, and agrees with the store of the exporter."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from exporter.stores.stores import open_store
from tests.support.lakes import EVERYWHERE
from tests.support.places import File, Place, place_of


@EVERYWHERE
def test_a_place_lists_reads_and_spoils_what_is_there(place: Place) -> None:
    """All below a folder, whole and by its path; what is replaced is read anew, and what is gone is not there."""
    assert (place.files(), place.files("order"), place.size("order/a")) == ([], [], None)
    for path in ("order/b", "order/_delta_log/0.json", "orders/c"):
        place.write(path, path.encode())
    listed = place.files("order")
    assert [(file.path, file.bytes) for file in listed] == [("order/_delta_log/0.json", 23), ("order/b", 7)]
    assert [place.read(file) for file in listed] == [b"order/_delta_log/0.json", b"order/b"]
    place.write("order/b", b"")
    (changed,) = [file for file in place.files() if file.name == "b"]
    assert place.read(changed) == place.read("order/b") == b"" and place.size("order/b") == 0
    assert place.written_at("order/b") > 1_700_000_000
    place.delete("order/b")
    for missing in (lambda: place.read("order/b"), lambda: place.delete("order/b")):
        with pytest.raises(FileNotFoundError):
            missing()


@EVERYWHERE
def test_a_place_is_where_its_settings_say(place: Place) -> None:
    """What the exporter's store writes there is what the place shows; place_of() finds it again by the settings."""
    told = place.settings
    options = {option: told[f"s3_{option}"] for option in ("endpoint", "region") if f"s3_{option}" in told}
    store = open_store(place.table_root, options)
    store.write_once("order/a", b"1")
    assert [(file.path, file.bytes) for file in place.files()] == [File("order/a", 1)[:2]]
    assert place_of(SimpleNamespace(table_root=place.table_root, **told)).read("order/a") == b"1"
    assert store.uri("order") == f"{place.spark_root}/order"
