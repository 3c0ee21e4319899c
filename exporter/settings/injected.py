"""Environment variables that Kubernetes makes of the names of Services; they are no settings.

For a Service `exporter` each pod that starts after it in its namespace has, unless `enableServiceLinks` is false:

    EXPORTER_SERVICE_HOST=10.0.0.11  EXPORTER_SERVICE_PORT=9108  EXPORTER_SERVICE_PORT_HTTP=9108
    EXPORTER_PORT=tcp://10.0.0.11:9108  EXPORTER_PORT_9108_TCP=tcp://10.0.0.11:9108
    EXPORTER_PORT_9108_TCP_PROTO=tcp  EXPORTER_PORT_9108_TCP_PORT=9108  EXPORTER_PORT_9108_TCP_ADDR=10.0.0.11

and for a Service `exporter-http` EXPORTER_HTTP_PORT=tcp://..., which is a setting's name. Only names that belong to a
Service count, so that a misspelt setting is still an error. Source: Kubernetes, "Service", environment variables. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_HOST = "_SERVICE_HOST"
_OTHERS = re.compile(r"_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://.*")


def without_injected(environ: Mapping[str, str]) -> dict[str, str]:
    """All variables but those of Services."""
    services = [name.removesuffix(_HOST) for name in environ if name.endswith(_HOST)]
    injected = {
        name
        for service in services
        for name in environ
        if name.startswith(service) and _is_injected(name.removeprefix(service), environ[name])
    }
    return {name: text for name, text in environ.items() if name not in injected}


def _is_injected(ending: str, text: str) -> bool:
    """ending: what stands behind the Service's name. A port is told by its value: a pod may set one of the name."""
    return bool(_OTHERS.fullmatch(ending)) or (ending == "_PORT" and bool(_ADDRESS.fullmatch(text)))
