"""Hands out a producer id and epoch, for idempotent and transactional producers (key 22).

Versions: 2 flexible; 3 lets a producer bump its own epoch; 4 and 5 only add possible errors.
Kafka marks version 6 (two-phase commit) as unstable, so it is left out.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, int16, int32, int64, string, wire


class InitProducerIdRequest(Message, key=22, versions="0-5", flexible="2+"):
    """Asks for a producer id; without a transactional id for an idempotent producer."""

    transactional_id: str | None = wire(string, "0+", nullable="0+")
    transaction_timeout_ms: int = wire(int32, "0+")
    producer_id: int = wire(int64, "3+", default=-1)
    producer_epoch: int = wire(int16, "3+", default=-1)


class InitProducerIdResponse(Message, key=22, versions="0-5", flexible="2+"):
    """The producer id and epoch to send with each batch."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    error_code: int = wire(int16, "0+", default=0)
    producer_id: int = wire(int64, "0+", default=-1)
    producer_epoch: int = wire(int16, "0+")
