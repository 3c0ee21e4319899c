"""The process from which Spark forks its Python workers; it starts them light and with everything imported.

Spark puts its own jar and its zipped sources on Python's path, and each task reads the directories of all archives
there again: 0.1 s of a core per task. Here pyspark is installed, so they go. What a round imports is imported once,
before the fork, and shared by the workers, whose collector of garbage passes over it.
"""

import gc
import sys
from importlib.machinery import PathFinder


def without_archives(path: list[str]) -> list[str]:
    """`path` without jars and zips, if pyspark is found without them; else as it is."""
    folders = [entry for entry in path if not entry.endswith((".jar", ".zip"))]
    found = all(PathFinder.find_spec(package, folders) for package in ("pyspark", "py4j"))
    return folders if found else path


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    import pyspark.sql.pandas.serializers  # noqa: F401 - with it comes pandas
    from pyspark import daemon

    from exporter import stage  # noqa: F401

    gc.freeze()
    daemon.manager()
