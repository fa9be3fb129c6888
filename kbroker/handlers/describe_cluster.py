"""DescribeCluster (60): the cluster's id, its brokers and its controller.

Versions: 1 asks for brokers or controllers (there is no separate controller here); 2 fenced
brokers.
"""

from __future__ import annotations

from kbroker.handlers.metadata import CLUSTER_OPERATIONS
from kbroker.handlers.registry import Call, api
from kbroker.protocol.errors import MismatchedEndpointType, UnsupportedEndpointType
from kbroker.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


@api(DescribeClusterRequest, DescribeClusterResponse)
def describe_cluster(call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
    """This broker, as the client sees it."""
    request, broker = call.request, call.broker
    if request.endpoint_type == _CONTROLLERS:
        raise MismatchedEndpointType("this is a broker's address, not a controller's")
    if request.endpoint_type != _BROKERS:
        raise UnsupportedEndpointType(f"unknown endpoint type {request.endpoint_type}")
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.node_id,
                host=call.client.advertised_host,
                port=call.client.advertised_port,
                is_fenced=False,
            )
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
