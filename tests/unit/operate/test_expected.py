"""The audit's own opinion on values, by format."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from exporter.core.value_format import Kind, ValueFormat
from exporter.errors import ConfigError
from exporter.formats.formats import FORMATS
from exporter.proof.readers.formats import EXPECTED, reader_of


def test_what_can_be_exported_can_be_audited() -> None:
    """Each format stands in both tables; the audit's shares no code with the other."""
    assert EXPECTED.keys() >= FORMATS.keys()
    assert EXPECTED.keys() == set(get_args(Kind))


def test_a_format_without_an_opinion_is_refused() -> None:
    """Before anything is read: an audit that compares nothing would find nothing."""
    unknown: Any = ValueFormat("xml")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'xml' cannot be audited"):
        reader_of(unknown)
