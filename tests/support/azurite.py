"""Azurite, Azure's own emulator of its Blob storage, as a child process, in memory. npm brings it, once per user.

It forgets everything when it stops. It is started with --disableTelemetry: else it reports home.

    <cache>/azurite-<version>/   what npm installed
    <folder>/azurite.log         what it says
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import shutil
import subprocess
import tempfile
from email.utils import formatdate
from pathlib import Path

from exporter.local.server import LocalServer
from exporter.spark.jars import cache_folder

VERSION = "3.35.0"
"""The newest that runs on Node 18 and 20."""
INSTALL_SECS_MAX = 240.0
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's documented account, the same everywhere."""
CONTAINER = "lake"
ROOT = f"abfs://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"


class NoAzurite(Exception):
    """There is none here, for the reason that it says."""


class Azurite(LocalServer):
    """One Azurite with one container; as a context manager it runs inside the block. Not for several threads."""

    def __init__(self) -> None:
        """Installs it if it is not there yet. Raises NoAzurite."""
        self._script = _installed() / "node_modules" / ".bin" / "azurite-blob"
        super().__init__("Azurite", "azurite")

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which this process and its children find it."""
        return {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": self.endpoint,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }

    def _command(self) -> list[str]:
        """See LocalServer."""
        quiet = ["--disableTelemetry", "--silent", "--loose", "--skipApiVersionCheck", "--inMemoryPersistence"]
        return [str(self._script), *quiet, "--blobHost", "127.0.0.1", "--blobPort", str(self._port)]

    def _begin(self) -> None:
        """See LocalServer; its container is empty again."""
        super()._begin()
        _make_container(self._port)


def _installed() -> Path:
    """The folder in which npm installed it, now or before; it appears by a rename, whole."""
    folder = cache_folder("").parent / f"azurite-{VERSION}"
    npm = shutil.which("npm")
    if folder.exists():
        return folder
    if npm is None:
        raise NoAzurite("npm, which brings Azurite, is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".azurite-", dir=folder.parent))
    asked = [npm, "install", "--prefix", str(work), "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        subprocess.run(
            [*asked, "--loglevel=error", f"azurite@{VERSION}"],
            check=True, capture_output=True, timeout=INSTALL_SECS_MAX, text=True,
        )  # fmt: skip
        if not folder.exists():
            work.rename(folder)
    except subprocess.CalledProcessError as error:
        raise NoAzurite(f"npm could not install Azurite: {' '.join(error.stderr.split())[:200]}") from error
    except subprocess.TimeoutExpired as error:
        raise NoAzurite(f"npm did not install Azurite within {INSTALL_SECS_MAX:.0f} s") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _make_container(port: int) -> None:
    """One signed request, by Azure's Shared Key: clients of objects make no containers."""
    date, version = formatdate(usegmt=True), "2021-12-02"
    signed = "\n".join(
        ["PUT", *[""] * 11, f"x-ms-date:{date}", f"x-ms-version:{version}", f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}"]
    )
    digest = hmac.new(base64.b64decode(KEY), f"{signed}\nrestype:container".encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        "Content-Length": "0",
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
    answer = connection.getresponse()
    if answer.status != 201:
        raise RuntimeError(f"Azurite made no container: {answer.status} {answer.read()[:300]!r}")
