"""The ten event types of the web shop: how often each comes, its columns, and what its own fields may hold."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import Any

BASE_DAY = date(2025, 3, 10)
"""The day of all Kafka timestamps, UTC, and of most event times. In the past for every broker's clock."""


@dataclass(frozen=True)
class ShopType:
    """One declared type. share: how many of 1000 events. body: makes the fields that other types do not have."""

    name: str
    share: int
    columns: str
    body: Callable[[Random], dict[str, Any]] = field(repr=False)

    @property
    def ddl(self) -> str:
        """All columns as Spark DDL, those that every type has first."""
        return f"seq BIGINT, ts TIMESTAMP, user_id BIGINT, session STRING, {self.columns}"


_WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "hazel", "indigo", "juniper", "kelp", "lotus"]
_WORDS += ["maple", "nectar", "olive", "pebble", "quartz", "river", "saffron", "timber", "umber", "velvet", "willow"]
_WORDS += ["yarrow", "zinnia", "Zürich", "Ærø", "señor", "東京"]


def _words(random: Random, count: int) -> str:
    return " ".join(random.choices(_WORDS, k=count))


def _price(random: Random) -> float:
    """With at most two digits after the point."""
    return random.randint(99, 49_999) / 100


def _base64(random: Random, length: int) -> str:
    return base64.b64encode(random.randbytes(length)).decode()


def _day(random: Random) -> str:
    return str(BASE_DAY + timedelta(random.randint(1, 20)))


def _page_view(random: Random) -> dict[str, Any]:
    return {
        "url": f"https://shop.example/{'/'.join(random.choices(_WORDS, k=3))}?ref={random.getrandbits(40):010x}",
        "referrer": random.choice([None, f"https://search.example/?q={_words(random, 2)}"]),
        "agent": f"Mozilla/5.0 (X11; Linux x86_64) Chrome/{random.randint(90, 133)}.0.{random.randint(1000, 9999)}.0",
        "device": {
            "os": random.choice(["android", "ios", "linux", "windows"]),
            "screen": {"width": random.choice([390, 1280, 1920]), "height": random.choice([844, 720, 1080])},
        },
        "load_ms": round(random.expovariate(1 / 300), 3),
        "logged_in": random.random() < 0.6,
    }


def _click(random: Random) -> dict[str, Any]:
    return {
        "element": f"#{'-'.join(random.choices(_WORDS, k=3))}",
        "position": {"x": random.randint(0, 1920), "y": random.randint(0, 9000)},
        "path": [f"div.{word}" for word in random.choices(_WORDS, k=random.randint(4, 9))],
        "label": _words(random, 6),
        "trusted": random.random() < 0.98,
        "held_ms": random.randint(20, 900),
        "trace": f"{random.getrandbits(128):032x}",
    }


def _search(random: Random) -> dict[str, Any]:
    filters = random.sample(["colour", "size", "brand", "price", "rating", "material"], k=random.randint(0, 3))
    return {
        "query": _words(random, random.randint(1, 4)),
        "filters": {name: _words(random, 1) for name in filters},
        "results": random.randint(0, 5000),
        "shown": [random.randint(10**6, 10**7) for _ in range(random.randint(5, 16))],
        "took_ms": round(random.expovariate(1 / 40), 3),
        "suggested": random.choice([None, _words(random, 2)]),
    }


def _login(random: Random) -> dict[str, Any]:
    return {
        "success": random.random() < 0.93,
        "method": random.choice(["password", "passkey", "oauth"]),
        "ip": f"192.0.2.{random.randint(1, 254)}",
        "risk": round(random.random(), 6),
        "roles": random.sample(["customer", "seller", "support", "admin"], k=random.randint(1, 2)),
        "device": {"os": random.choice(["android", "ios", "linux"]), "fingerprint": f"{random.getrandbits(160):040x}"},
    }


def _add_to_cart(random: Random) -> dict[str, Any]:
    return {
        "cart_id": f"{random.getrandbits(128):032x}",
        "item": {
            "sku": f"SKU-{random.randint(10**6, 10**7)}",
            "name": _words(random, 5),
            "price": _price(random),
            "options": {"colour": _words(random, 1), "size": random.choice("SML")},
        },
        "quantity": random.randint(1, 5),
        "from_wishlist": random.random() < 0.2,
    }


def _checkout(random: Random) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"sku": f"SKU-{random.randint(10**6, 10**7)}", "quantity": random.randint(1, 4), "price": _price(random)}
        for _ in range(random.randint(2, 6))
    ]
    total = sum(round(item["price"] * 100) * item["quantity"] for item in items) / 100
    coupon = {} if random.random() < 0.7 else {"coupon": _words(random, 1)}
    return {
        "order_id": random.randint(10**9, 10**10),
        "items": items,
        "total": total,
        **coupon,
        "ship_by": _day(random),
    }


def _payment(random: Random) -> dict[str, Any]:
    return {
        "order_id": random.randint(10**9, 10**10),
        "amount": f"{_price(random):.4f}",
        "currency": random.choice(["CHF", "DKK", "EUR", "JPY"]),
        "method": random.choice(["card", "invoice", "transfer"]),
        "captured": random.random() < 0.95,
        "authorised_at": f"{BASE_DAY}T{random.randint(0, 23):02d}:30:00.{random.randrange(10**6):06d}Z",
        "signature": _base64(random, 72),
    }


def _shipment(random: Random) -> dict[str, Any]:
    return {
        "order_id": random.randint(10**9, 10**10),
        "carrier": random.choice(["post", "courier", "bike"]),
        "parcels": [
            {"code": f"{random.getrandbits(64):016x}", "kg": round(random.uniform(0.1, 30), 3)}
            for _ in range(random.randint(1, 3))
        ],
        "delivery": _day(random),
        "address": {"street": _words(random, 2), "city": _words(random, 1), "zip": f"{random.randint(1000, 9999)}"},
        "insured": random.random() < 0.1,
    }


def _error_report(random: Random) -> dict[str, Any]:
    return {
        "service": random.choice(["cart", "search", "login"]),
        "message": _words(random, 8),
        "stack": [f"at {word}.{random.choice(_WORDS)}:{random.randint(1, 999)}" for word in random.sample(_WORDS, 5)],
        "context": {word: _words(random, 1) for word in random.sample(_WORDS, 3)},
        "dump": _base64(random, 60),
        "fatal": random.random() < 0.05,
    }


def _climate(random: Random) -> dict[str, Any]:
    return {
        "hall": random.randint(1, 9),
        "readings": {f"sensor-{number}": round(random.gauss(19, 3), 2) for number in range(random.randint(6, 14))},
        "door_open": random.random() < 0.1,
    }


EVENT_TYPES = (
    ShopType(
        "page_view",
        355,
        "url STRING, referrer STRING, agent STRING, load_ms DOUBLE, logged_in BOOLEAN, "
        "device STRUCT<os: STRING, screen: STRUCT<width: INT, height: INT>>",
        _page_view,
    ),
    ShopType(
        "click",
        260,
        "element STRING, position STRUCT<x: INT, y: INT>, path ARRAY<STRING>, label STRING, trusted BOOLEAN, "
        "held_ms BIGINT, trace STRING",
        _click,
    ),
    ShopType(
        "search",
        120,
        "query STRING, filters MAP<STRING, STRING>, results INT, shown ARRAY<BIGINT>, took_ms DOUBLE, suggested STRING",
        _search,
    ),
    ShopType(
        "login",
        90,
        "success BOOLEAN, method STRING, ip STRING, risk DOUBLE, roles ARRAY<STRING>, "
        "device STRUCT<os: STRING, fingerprint: STRING>",
        _login,
    ),
    ShopType(
        "add_to_cart",
        70,
        "cart_id STRING, item STRUCT<sku: STRING, name: STRING, price: DECIMAL(12,2), options: MAP<STRING, STRING>>, "
        "quantity INT, from_wishlist BOOLEAN",
        _add_to_cart,
    ),
    ShopType(
        "checkout",
        40,
        "order_id BIGINT, items ARRAY<STRUCT<sku: STRING, quantity: INT, price: DECIMAL(12,2)>>, total DECIMAL(14,2), "
        "coupon STRING, ship_by DATE",
        _checkout,
    ),
    ShopType(
        "payment",
        35,
        "order_id BIGINT, amount DECIMAL(18,4), currency STRING, method STRING, captured BOOLEAN, "
        "authorised_at TIMESTAMP, signature BINARY",
        _payment,
    ),
    ShopType(
        "shipment",
        18,
        "order_id BIGINT, carrier STRING, parcels ARRAY<STRUCT<code: STRING, kg: DOUBLE>>, delivery DATE, "
        "address STRUCT<street: STRING, city: STRING, zip: STRING>, insured BOOLEAN",
        _shipment,
    ),
    ShopType(
        "error_report",
        11,
        "service STRING, message STRING, stack ARRAY<STRING>, context MAP<STRING, STRING>, dump BINARY, fatal BOOLEAN",
        _error_report,
    ),
    ShopType("warehouse_climate", 1, "hall SMALLINT, readings MAP<STRING, DOUBLE>, door_open BOOLEAN", _climate),
)
"""All declared types, most frequent first. The shares add up to 1000; the last type is meant to be rare."""
