"""The control topic as a channel, and one that loses and doubles on purpose."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import pytest

from exporter.coordinate.channel import TopicChannel
from exporter.coordinate.loss import VARIABLE, LossyChannel, MessageLoss, as_lossy_as_told
from exporter.coordinate.messages import encode
from exporter.coordinate.signature import Signature
from exporter.core.coordination import Begin, Message, Offer
from tests.unit.coordinate.test_messages import MESSAGES, OFFER

SIGNATURE = Signature(lambda: b"key")


class Loop:
    """A topic that gives back what it gets, and what others have written."""

    trouble = "somewhat"

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.is_closed = False

    def send(self, values: Sequence[bytes]) -> None:
        self.values += values

    def receive(self, timeout_secs: float) -> list[bytes]:
        values, self.values = self.values, []
        return values

    def close(self) -> None:
        self.is_closed = True


def begins(count: int) -> list[Message]:
    return [Begin("app", "task", f"r{number}", number) for number in range(count)]


def test_what_is_none_of_this_app_s_messages_is_counted_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """In the midst of others; a line of the log tells of the first."""
    wire = Loop()
    channel = TopicChannel(wire, "app", SIGNATURE)
    channel.say(MESSAGES[:1])
    wire.send([b"junk", encode(Begin("other", "task", "r", 1)), b""])
    channel.say(MESSAGES[1:])
    assert channel.hear(0) == MESSAGES
    assert channel.ignored == 3
    assert [one.levelname for one in caplog.records].count("WARNING") == 1
    assert channel.trouble == "somewhat"
    channel.close()
    assert wire.is_closed


def test_who_does_not_lead_passes_over_offers_unread() -> None:
    """With many tasks and tables they are nearly all that is said. As soon as it leads it hears them."""
    wire, leads = Loop(), [False]
    channel = TopicChannel(wire, "app", SIGNATURE, lambda: leads[0])
    channel.say([OFFER, *MESSAGES])
    wire.send([encode(OFFER)])
    assert channel.hear(0) == [one for one in MESSAGES if not isinstance(one, Offer)]
    assert channel.ignored == 0, "whose they are is the leader's to find out"
    leads[0] = True
    channel.say(MESSAGES)
    assert channel.hear(0) == MESSAGES


def test_an_offer_is_heard_of_those_alone_who_can_read_the_key() -> None:
    """Not signed, signed with another key, changed after it was signed, the signature of another: passed over. The key
    may be made anew."""
    wire, now, keys = Loop(), [0.0], [b"old"]
    signature = Signature(lambda: keys[0], lambda: now[0])
    channel = TopicChannel(wire, "app", signature)
    channel.say([OFFER])
    (signed,) = wire.values
    assert channel.hear(0) == [OFFER]
    assert json.loads(signed).keys() - json.loads(encode(OFFER)).keys() == {"signature"}
    forged = encode(OFFER).replace(b'"new":25', b'"new":26')
    for value in (
        forged, signed.replace(b'"new":25', b'"new":26'), forged[:-1] + signed[-80:],
        Signature(lambda: b"x").put_on(forged), signed[:-1] + b" }",
        signed[:-1] + b',"new":26}', encode(OFFER)[:-1] + b',"signature":""}',
    ):  # fmt: skip
        wire.send([value])
        assert channel.hear(0) == [], value
    assert channel.ignored == 7
    keys[0] = b"new"
    wire.send([Signature(lambda: b"new").put_on(encode(OFFER))])
    assert channel.hear(0) == [], "it is looked at again every so often"
    now[0] += 10.0
    wire.send([Signature(lambda: b"new").put_on(encode(OFFER))])
    assert channel.hear(0) == [OFFER]


def test_an_offer_that_cannot_be_signed_is_not_said() -> None:
    """Its task commits it by itself; what needs no signature is said."""

    def gone() -> bytes:
        raise OSError("no answer")

    channel = TopicChannel(Loop(), "app", Signature(gone))
    channel.say([MESSAGES[0], OFFER])
    assert channel.hear(0) == [MESSAGES[0]]


def test_a_loss_is_as_large_as_told_and_comes_again_with_the_same_seed() -> None:
    """Of 10,000 messages, within a few standard deviations; what is heard twice comes the second time later."""
    heard: list[list[Message]] = []
    for task in (1, 1, 2):
        channel = LossyChannel(TopicChannel(Loop(), "app", SIGNATURE), MessageLoss(0.15, 0.15, 3), task)
        channel.say(begins(10_000))
        first, second = channel.hear(0), channel.hear(0)
        assert len(first) == len({*map(repr, first)}) == pytest.approx(8_500, abs=150)
        assert len(second) == pytest.approx(0.15 * 8_500, abs=150)
        assert {*map(repr, second)} <= {*map(repr, first)}
        assert channel.hear(0) == []
        heard.append(first)
    assert heard[0] == heard[1] != heard[2]
    channel.close()
    assert channel.trouble == "somewhat"


def test_only_the_environment_arms_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel that nothing arms is handed on as it is."""
    channel = TopicChannel(Loop(), "app", SIGNATURE)
    monkeypatch.delenv(VARIABLE, raising=False)
    assert as_lossy_as_told(channel) is channel
    monkeypatch.setenv(VARIABLE, "lose=1,seed=4")
    lossy = as_lossy_as_told(channel)
    lossy.say(begins(3))
    assert lossy.hear(0) == []
    assert MessageLoss.parse(os.environ[VARIABLE]) == MessageLoss(1, 0, 4)


@pytest.mark.parametrize("text", ["lost=1", "lose", "lose=2", "double=-1", "lose=x", "lose=nan", "lose=0,lose=1", ","])
def test_a_loss_that_cannot_be_read_is_refused(text: str) -> None:
    """A drill that armed nothing would prove nothing."""
    with pytest.raises(ValueError):
        MessageLoss.parse(text)
