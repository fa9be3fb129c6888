"""InitProducerId (22): an id and an epoch for an idempotent producer.

Without a transactional id the answer is always a new id, whatever id the producer had before, as in
Apache Kafka. Transactional ids are refused: there is no transaction coordinator yet, and
FindCoordinator is not advertised, so clients do not get this far.
"""

from __future__ import annotations

from kbroker.handlers.registry import Call, api
from kbroker.protocol.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTransactionTimeout,
)
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


@api(InitProducerIdRequest, InitProducerIdResponse)
async def init_producer_id(call: Call[InitProducerIdRequest]) -> InitProducerIdResponse:
    """Gives out an id."""
    request, broker = call.request, call.broker
    if request.transactional_id is not None:
        if request.transactional_id == "":
            raise InvalidRequest("an empty transactional id")
        limit_ms = broker.settings.integer("transaction.max.timeout.ms")
        if not 0 < request.transaction_timeout_ms <= limit_ms:
            raise InvalidTransactionTimeout(f"transaction.max.timeout.ms is {limit_ms}")
        raise CoordinatorNotAvailable("transactions are not supported yet")
    producer_id = broker.catalog.new_producer_id()
    await broker.catalog.synced()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
