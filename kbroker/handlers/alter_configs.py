"""AlterConfigs (33): replaces all settings of a topic or broker; older clients still use it."""

from __future__ import annotations

from collections import Counter

from kbroker.handlers.config_changes import Texts, change
from kbroker.handlers.registry import Call, api
from kbroker.protocol.errors import InvalidRequest, KafkaError
from kbroker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@api(AlterConfigsRequest, AlterConfigsResponse)
async def alter_configs(call: Call[AlterConfigsRequest]) -> AlterConfigsResponse:
    """Each resource by itself."""
    request, broker = call.request, call.broker
    responses = []
    asked = Counter((r.resource_type, r.resource_name) for r in request.resources)
    for resource in request.resources:
        response = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            texts = _texts(resource)
            change(
                broker,
                resource.resource_type,
                resource.resource_name,
                request.validate_only,
                lambda _, texts=texts: texts,  # type: ignore[misc]  # bound now, not at the call
                asked[resource.resource_type, resource.resource_name],
            )
        except KafkaError as problem:
            response.error_code, response.error_message = problem.code, problem.message
        responses.append(response)
    await broker.catalog.synced()
    return AlterConfigsResponse(responses=responses)


def _texts(resource: AlterConfigsResource) -> Texts:
    texts: Texts = {}
    for config in resource.configs:
        if config.value is None:
            raise InvalidRequest(f"{config.name} has no value")
        if config.name in texts:
            raise InvalidRequest(f"{config.name} is given twice")
        texts[config.name] = config.value
    return texts
