"""An S3 as a child process, in memory, for the drill, the tests and the benchmark: moto, an extra of the tests.

It forgets everything when it stops, and takes any credentials.

    <folder>/s3.log   what it says
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

from exporter.errors import ConfigError
from exporter.local.server import LocalServer

BUCKET = "lake"


class LocalS3(LocalServer):
    """One S3 with one bucket; as a context manager it runs inside the block. Not for several threads at once."""

    def __init__(self) -> None:
        """Raises ConfigError if moto is not installed."""
        if find_spec("moto") is None:
            raise ConfigError("there is no S3 here: moto is not installed", "pip install 'moto[server]'")
        super().__init__("S3", "s3")

    def _command(self) -> list[str]:
        """See LocalServer; the bucket is empty again."""
        return [sys.executable, "-c", f"from exporter.local.s3 import serve; serve({self._port}, {BUCKET!r})"]


def serve(port: int, bucket: str) -> None:
    """What the child process does: serve the bucket until it is ended."""
    import logging

    from werkzeug.serving import WSGIRequestHandler, run_simple

    logging.disable(logging.WARNING)  # a line per request
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    run_simple("127.0.0.1", port, s3_app(bucket), threaded=True)


def s3_app(bucket: str) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """moto with one bucket, behind one lock for all that is conditional, which it looks at first and does then.

    Only what is for another service, as a Glue catalog beside the bucket, goes by moto's dispatcher: it looks for the
    service of each request among its folders, under another lock.
    """
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    from moto.server import DomainDispatcherApplication, create_backend_app

    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket(bucket, "us-east-1")
    s3: Any = create_backend_app("s3")
    others: Any = DomainDispatcherApplication(create_backend_app)
    alone = threading.Lock()

    def locked(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        app = others if "HTTP_X_AMZ_TARGET" in environ else s3
        if "HTTP_IF_NONE_MATCH" not in environ and "HTTP_IF_MATCH" not in environ:
            answer: Iterable[bytes] = app(environ, start_response)
            return answer
        with alone:
            return list(app(environ, start_response))

    return locked
