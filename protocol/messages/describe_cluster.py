"""The brokers, the controller and the cluster id (key 60).

Versions: 0 is flexible already; 1 asks for brokers or for controllers; 2 includes fenced brokers.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, boolean, int8, int16, int32, string, wire


class DescribeClusterRequest(Message, key=60, versions="0-2", flexible="0+"):
    """Asks for brokers (endpoint type 1) or controllers (2)."""

    include_cluster_authorized_operations: bool = wire(boolean, "0+")
    endpoint_type: int = wire(int8, "1+", default=1)
    include_fenced_brokers: bool = wire(boolean, "2+")


class DescribeClusterBroker(Message):
    """A broker's address."""

    broker_id: int = wire(int32, "0+")
    host: str = wire(string, "0+")
    port: int = wire(int32, "0+")
    rack: str | None = wire(string, "0+", nullable="0+", default=None)
    is_fenced: bool = wire(boolean, "2+")


class DescribeClusterResponse(Message, key=60, versions="0-2", flexible="0+"):
    """The brokers and the controller."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    error_code: int = wire(int16, "0+", default=0)
    error_message: str | None = wire(string, "0+", nullable="0+", default=None)
    endpoint_type: int = wire(int8, "1+", default=1)
    cluster_id: str = wire(string, "0+")
    controller_id: int = wire(int32, "0+", default=-1)
    brokers: list[DescribeClusterBroker] = wire(array(DescribeClusterBroker), "0+")
    cluster_authorized_operations: int = wire(int32, "0+", default=-2147483648)
