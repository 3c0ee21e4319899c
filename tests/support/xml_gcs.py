"""A server that speaks as Google's does to obstore, in this process, in memory: the XML API, which moto has as S3's.

One thing differs between the two and is said here in S3's words: that an object must not have a generation yet. How
Google's own server behaves is not shown by it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from exporter.local.s3 import BUCKET, _make_bucket, _one_at_a_time

TOKEN = {"GOOGLE_BEARER_TOKEN": "local"}
"""Environment variable for obstore, which would ask the machine's metadata server otherwise."""


@contextmanager
def xml_gcs() -> Iterator[str]:
    """Its address; there is one bucket."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = DomainDispatcherApplication(create_backend_app)
    _make_bucket(BUCKET)
    server = make_server("127.0.0.1", 0, in_s3_s_words(_one_at_a_time(app)), threaded=True, request_handler=Handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        serving.join(10)
        server.server_close()


def in_s3_s_words(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    def told(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH") == "0":
            environ["HTTP_IF_NONE_MATCH"] = "*"
        return app(environ, start_response)

    return told
