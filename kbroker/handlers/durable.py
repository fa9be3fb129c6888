"""Answers that leave only when the change they tell of is on disk."""

from __future__ import annotations

from typing import TypeVar

from kbroker.broker import Broker
from kbroker.protocol.schema import Message

Response = TypeVar("Response", bound=Message)


async def when_durable(broker: Broker, response: Response) -> Response:
    """The response, once the catalog's changes so far are synced."""
    await broker.catalog.synced()
    return response
