"""A server that speaks as Google's does to obstore, which knows the XML API only: in this process, over another one.

    moto               has that API as S3's; that an object must not have a generation yet is said in S3's words
    fake-gcs-server    has it but for writing, which is said in the words of the JSON API

How Google's own server behaves is not shown by either.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote

import urllib3

from exporter.local.s3 import BUCKET, s3_app
from exporter.stores.store import Store
from exporter.stores.stores import open_store

TOKEN = {"GOOGLE_BEARER_TOKEN": "local"}
"""Environment variable for obstore, which would ask the machine's metadata server otherwise."""
ABSENT = "HTTP_X_GOOG_IF_GENERATION_MATCH"
App = Callable[[dict[str, Any], Any], Iterable[bytes]]


@contextmanager
def over(app: App) -> Iterator[str]:
    """Its address."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        serving.join(10)
        server.server_close()


@contextmanager
def gcs_store(given: str = "") -> Iterator[Store]:
    """A store over moto, or over the fake-gcs-server that is given as http://host:port/bucket."""
    address, _, bucket = given.rpartition("/")
    with over(of_fake_gcs_server(address) if given else of_moto()) as endpoint:
        yield open_store(f"gs://{bucket or BUCKET}", {"endpoint": endpoint})


def of_moto() -> App:
    s3 = s3_app(BUCKET)

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get(ABSENT) == "0":
            environ["HTTP_IF_NONE_MATCH"] = "*"
        return s3(environ, start_response)

    return app


def of_fake_gcs_server(address: str) -> App:
    upstream = urllib3.PoolManager(maxsize=64)

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method, url = environ["REQUEST_METHOD"], environ["REQUEST_URI"]
        kept = (name for name in environ if name.startswith("HTTP_") and name != "HTTP_HOST")  # it tells buckets by it
        headers = {name[5:].replace("_", "-"): environ[name] for name in kept}
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        writes = method == "PUT" and not url.startswith(("/storage/", "/upload/"))
        if writes:
            bucket, _, key = url.lstrip("/").partition("/")
            absent = f"&ifGenerationMatch={environ[ABSENT]}" if ABSENT in environ else ""
            method = "POST"
            url = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(unquote(key), safe='')}{absent}"
        if kind := environ.get("CONTENT_TYPE"):
            headers["Content-Type"] = kind
        answer = upstream.request(method, address + url, body=body, headers=headers, redirect=False, retries=False)
        told = [(name, text) for name, text in answer.headers.items() if name.lower() not in HOP_BY_HOP]
        if writes and answer.status == 200:
            told.append(("ETag", json.loads(answer.data)["etag"]))
        size = answer.headers.get("Content-Length", "0") if method == "HEAD" else str(len(answer.data))
        start_response(f"{answer.status} {answer.reason}", [*told, ("Content-Length", size)])
        return [] if method == "HEAD" else [answer.data]

    return app


HOP_BY_HOP = frozenset({"connection", "content-length", "transfer-encoding"})
