"""The process from which Spark forks its Python workers; it starts them light and with everything imported.

Spark puts its own jar and its zipped sources on Python's path, and each task reads the directories of all archives
there again. Here pyspark is installed, so they go. What a round imports is imported once,
before the fork, and shared by the workers, whose collector of garbage passes over it. pandas is not among it.
"""

import gc
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any


def without_archives(path: list[str]) -> list[str]:
    """`path` without jars and zips, if pyspark is found without them; else as it is."""
    folders = [entry for entry in path if not entry.endswith((".jar", ".zip"))]
    found = all(PathFinder.find_spec(package, folders) for package in ("pyspark", "py4j"))
    return folders if found else path


class _NoPandas:
    """A finder of modules by which pandas is not there."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raises ModuleNotFoundError for pandas, finds nothing else."""
        if name == "pandas":
            raise ModuleNotFoundError(f"no {name} is wanted here", name=name)


def arrow_without_pandas() -> None:
    """Let pyarrow look for pandas now, once and in vain.

    It does so, once, before it makes the first array of Python objects, in case they are pandas': time and
    memory of each worker, for nothing. Whoever imports pandas afterwards gets it, also pyarrow where it needs it.
    """
    import pyarrow

    sys.meta_path.insert(0, _NoPandas)
    try:
        pyarrow.scalar(0)
    finally:
        sys.meta_path.remove(_NoPandas)


def silent(worker: Callable[[Any, bool], int]) -> Callable[[Any, bool], int]:
    """Spark's worker, which ends without a trace where the JVM waits for its answer no more.

    Whoever cancels a task, or tries a round again, tells that. What the code of a task raises never comes here: it is
    the answer.
    """

    def work(sock: Any, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return work


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    import pyspark.sql.pandas.serializers  # noqa: F401 - imported for the workers
    from pyspark import daemon

    arrow_without_pandas()  # before a module of ours makes an array

    from exporter.executor import stage  # noqa: F401

    daemon.worker = silent(daemon.worker)
    gc.freeze()
    daemon.manager()
