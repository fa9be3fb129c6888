"""ApiVersions (18): what this broker speaks, straight from the registry.

Differences from Apache Kafka: only implemented APIs are listed; no features are advertised, so
clients stay with the classic protocols.
Versions: 3 says the client's software; 4 allows features of version 0. The answer's header stays
v0.
"""

from kbroker.handlers.registry import APIS, Call, api
from kbroker.protocol.errors import InvalidRequest
from kbroker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

_SOFTWARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")


@api(ApiVersionsRequest, ApiVersionsResponse)
def api_versions(call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    """Answers from the table."""
    request = call.request
    if call.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not text or not set(text) <= _SOFTWARE or text[0] in "-." or text[-1] in "-.":
                return ApiVersionsResponse(error_code=InvalidRequest.code, api_keys=[])
        call.client.software_name = request.client_software_name
        call.client.software_version = request.client_software_version
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=entry.key,
                min_version=entry.advertised[0],
                max_version=entry.advertised[-1],
            )
            for entry in sorted(APIS.values(), key=lambda entry: entry.key)
        ]
    )
