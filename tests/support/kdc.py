"""A KDC of this machine, for a realm of its own; it needs no root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.local.server import accepts, free_ports
from tests.support.lakes import wait_until

REALM = "EXPORTER.TEST"
UNPACKED = "EXPORTER_TEST_KERBEROS"
"""Names the folder where .ci/run has unpacked Debian's packages."""


def program(name: str) -> str | None:
    """Its path."""
    root = os.environ.get(UNPACKED, "")
    places = [os.path.join(root, folder) for folder in ("usr/sbin", "usr/bin")] if root else ["/usr/sbin", "/usr/bin"]
    return shutil.which(name, path=os.pathsep.join(places))


class Kdc:
    """environment: of whoever asks it. conf: its krb5.conf."""

    def __init__(self, folder: Path) -> None:
        missing = [name for name in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit") if program(name) is None]
        if missing:
            pytest.skip(f"no KDC: {', '.join(missing)} not here, and {UNPACKED} names no other place")
        self._folder, (self._port,) = folder, free_ports(1)
        self.conf = folder / "krb5.conf"
        plugins = next(Path(os.environ.get(UNPACKED, "/")).glob("usr/lib/*/krb5/plugins/kdb"), Path("/nowhere"))
        self.conf.write_text(f"""[libdefaults]
default_realm = {REALM}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{REALM} = {{
kdc = 127.0.0.1:{self._port}
}}
[dbmodules]
db_module_dir = {plugins}
""")
        (folder / "kdc.conf").write_text(f"""[realms]
{REALM} = {{
database_name = {folder}/principal
key_stash_file = {folder}/stash
kdc_listen = ""
kdc_tcp_listen = 127.0.0.1:{self._port}
}}
""")
        self.environment = {"KRB5_CONFIG": str(self.conf), "KRB5CCNAME": f"FILE:{folder}/cache"}

    def run(self, name: str, *words: str) -> None:
        """One of its programs."""
        subprocess.run([program(name) or name, *words], env=self._environment(), check=True, capture_output=True)

    def keytab(self, *principals: str) -> Path:
        """Of new principals."""
        path = self._folder / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def _environment(self) -> dict[str, str]:
        libraries = [str(path) for path in Path(os.environ.get(UNPACKED, "/nowhere")).glob("usr/lib/*-linux-gnu")]
        own = {"KRB5_KDC_PROFILE": str(self._folder / "kdc.conf"), "LD_LIBRARY_PATH": os.pathsep.join(libraries)}
        return {**os.environ, **self.environment, **own}

    @contextmanager
    def running(self) -> Iterator[Kdc]:
        """It listens inside the block."""
        self.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        with (self._folder / "kdc.log").open("wb") as log:
            server = subprocess.Popen(
                [program("krb5kdc") or "krb5kdc", "-n"], env=self._environment(), stdout=log, stderr=log
            )
        try:
            wait_until(lambda: accepts(self._port), 20, "the KDC")
            yield self
        finally:
            server.kill()
            server.wait(10)
