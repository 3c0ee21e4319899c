"""How a schema registry is reached, and what becomes of ids that it does not know."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class RegistryOptions:
    """urls: of the same registry, in the order in which they are tried. region, registry_name, endpoint_url: of Glue's;
    empty for the region that AWS's standard chain finds, and for AWS's own address. Without urls, or kind = glue, what
    is recorded is all there is.

    name: under which decisions are recorded; another name is another registry. subjects: whose versions are loaded at
    the start. username and password, or token: sent to every URL. ca_file: PEM of the authorities to be trusted, the
    system's without. cert_file, key_file: PEM of the client's certificate and key, the key's own file where it is one.
    timeout_secs: for one request, from its beginning to the last byte of its answer.
    unknown_after_secs: for how long a registry has to say that there is no such id before that is recorded.
    """

    urls: tuple[str, ...] = ()
    name: str = "default"
    subjects: tuple[str, ...] = ()
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout_secs: float = 10.0
    unknown_schema_id: Literal["dead_letter", "stall"] = "dead_letter"
    unknown_after_secs: float = 60.0
    kind: Literal["confluent", "glue"] = "confluent"
    region: str = ""
    registry_name: str = "default-registry"
    endpoint_url: str = ""

    @property
    def is_there(self) -> bool:
        """Whether there is a registry to be asked."""
        return self.kind == "glue" or bool(self.urls)
