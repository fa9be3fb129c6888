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
    KafkaError,
)
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


@api(InitProducerIdRequest, InitProducerIdResponse)
async def init_producer_id(call: Call[InitProducerIdRequest]) -> InitProducerIdResponse:
    """Gives out an id."""
    request, broker = call.request, call.broker
    try:
        _check(request, broker.settings.integer("transaction.max.timeout.ms"))
    except KafkaError as problem:
        return InitProducerIdResponse(error_code=problem.code, producer_epoch=-1)
    producer_id = broker.catalog.new_producer_id()
    await broker.catalog.synced()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _check(request: InitProducerIdRequest, max_timeout_ms: int) -> None:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise InvalidRequest("a producer names its old id and epoch, or neither")
    if request.transactional_id is None:
        return
    if request.transactional_id == "":
        raise InvalidRequest("an empty transactional id")
    if not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        raise InvalidTransactionTimeout(f"transaction.max.timeout.ms is {max_timeout_ms}")
    raise CoordinatorNotAvailable("transactions are not supported yet")
