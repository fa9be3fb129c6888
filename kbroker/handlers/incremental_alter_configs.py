"""IncrementalAlterConfigs (44): sets, deletes, appends to and subtracts from single settings."""

from __future__ import annotations

from collections import Counter

from kbroker.broker import Broker
from kbroker.handlers.config_changes import Texts, apply_operation, change
from kbroker.handlers.registry import Call, api
from kbroker.protocol.errors import InvalidRequest, KafkaError
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


@api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse)
async def incremental_alter_configs(
    call: Call[IncrementalAlterConfigsRequest],
) -> IncrementalAlterConfigsResponse:
    """Each resource by itself, all its operations or none."""
    broker, request = call.broker, call.request
    asked = Counter((r.resource_type, r.resource_name) for r in request.resources)
    responses = [
        _resource(
            broker,
            resource,
            request.validate_only,
            asked[resource.resource_type, resource.resource_name],
        )
        for resource in request.resources
    ]
    await broker.catalog.synced()
    return IncrementalAlterConfigsResponse(responses=responses)


def _resource(
    broker: Broker,
    resource: IncrementalAlterConfigsResource,
    validate_only: bool,
    times_asked: int,
) -> IncrementalAlterConfigsResourceResponse:
    response = IncrementalAlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )

    def new_texts(texts: Texts) -> Texts:
        names = [config.name for config in resource.configs]
        if len(set(names)) < len(names):
            raise InvalidRequest("a setting is named twice")
        for config in resource.configs:
            apply_operation(
                broker,
                resource.resource_type,
                resource.resource_name,
                texts,
                config.name,
                config.config_operation,
                config.value,
            )
        return texts

    try:
        change(
            broker,
            resource.resource_type,
            resource.resource_name,
            validate_only,
            new_texts,
            times_asked,
        )
    except KafkaError as problem:
        response.error_code, response.error_message = problem.code, problem.message
    return response
