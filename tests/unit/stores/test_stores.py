"""A root finds its store by its scheme, and one that could lose commits is refused."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.stores.file import FileStore
from exporter.stores.stores import STORES, open_store


@pytest.mark.parametrize("root", ["/data/tables", "file:///data/tables", "file:///data//tables/"])
def test_a_path_is_the_file_system_s_however_it_is_written(root: str) -> None:
    """file:///x and /x are the same folder."""
    assert open_store(root) == FileStore("/data/tables") and open_store(root).uri() == "/data/tables"


@pytest.mark.parametrize("root", ["ftp://name/x", "memory://x", "http://x"])
def test_a_scheme_without_a_store_is_refused(root: str) -> None:
    """Exit 2; the fake is nobody's in production."""
    with pytest.raises(ConfigError, match=r":// is not a store that tables can be in") as caught:
        open_store(root)
    assert caught.value.exit_code == 2 and "file://" in caught.value.hint


def test_s3_is_called_as_the_jvm_calls_it() -> None:
    """s3:// and s3a:// are the same bucket; what it is told beside goes with it to whatever is below."""
    store = open_store("s3://bucket/tables/", {"region": "x"})
    assert store == open_store("s3a://bucket/tables", {"region": "x"}) and store.uri("a") == "s3a://bucket/tables/a"
    assert store.below("a").options == {"region": "x"} and store != open_store("s3://bucket/tables")


HOST = "acc.dfs.core.windows.net"
NO_ROOTS = {
    "absolute path or file:///path": ["data/tables", "", "file://data", "/a\nb"],
    "is not decoded": ["file:///a%20b"],
    "s3://bucket/path": ["s3://", "s3://b/../x", "s3://b//x"],
    "written plainly": ["s3://b/%20"],
    "gs://bucket/path": ["gs:///tables"],
    "abfss://container@account.dfs": [
        "abfss://lake", "abfss://lake/tables", "abfss://lake@acc/tables", "abfss://lake@acc.blob.core.windows.net/x",
        f"abfss://{HOST}/lake", f"abfss://l@{HOST}", f"abfss://Lake@{HOST}", f"abfss://lake@{HOST}:80/x",
        f"abfss://lake@{HOST}/tables/../x", f"abfss://lake@{HOST}/tables//x",
    ],
    "hdfs://namenode:port/path|no path": [
        "hdfs://", "hdfs:///a", "hdfs://n:x/a", "hdfs://n/a:b", "hdfs://n/../a", "hdfs://n/a//b",
    ],
}  # fmt: skip
"""What is said of them: a container alone names no account, no name of HDFS has a colon, none leads elsewhere."""


@pytest.mark.parametrize(("root", "says"), [(root, says) for says, roots in NO_ROOTS.items() for root in roots])
def test_what_is_no_root_of_its_store_is_refused(root: str, says: str) -> None:
    """Before anything is made of it, with what it should be."""
    with pytest.raises(ValueError, match=says):
        open_store(root)


@pytest.mark.parametrize("promises", [{}, {"commits_are_exclusive": False}, {"commits_are_exclusive": "mostly"}])
def test_a_store_that_could_lose_commits_is_refused(monkeypatch: pytest.MonkeyPatch, promises: dict[str, Any]) -> None:
    """FENCE: exit 2, whatever else it can do."""
    monkeypatch.setitem(STORES, "looks-first", lambda root, options: type("Store", (), promises)())
    with pytest.raises(ConfigError, match="one commit would be lost") as caught:
        open_store("looks-first://x")
    assert caught.value.exit_code == 2
