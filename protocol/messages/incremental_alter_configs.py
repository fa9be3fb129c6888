"""Changes single settings: set, delete, append to a list, subtract from it (key 44).

Versions: 1 flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, boolean, int8, int16, int32, string, wire


class IncrementalAlterableConfig(Message):
    """One change: 0 set, 1 delete, 2 append, 3 subtract."""

    name: str = wire(string, "0+")
    config_operation: int = wire(int8, "0+")
    value: str | None = wire(string, "0+", nullable="0+")


class IncrementalAlterConfigsResource(Message):
    """A topic or broker and the changes to its settings."""

    resource_type: int = wire(int8, "0+")
    resource_name: str = wire(string, "0+")
    configs: list[IncrementalAlterableConfig] = wire(array(IncrementalAlterableConfig), "0+")


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    """Settings to change, or only to check."""

    resources: list[IncrementalAlterConfigsResource] = wire(
        array(IncrementalAlterConfigsResource), "0+"
    )
    validate_only: bool = wire(boolean, "0+")


class IncrementalAlterConfigsResourceResponse(Message):
    """The outcome for one topic or broker."""

    error_code: int = wire(int16, "0+", default=0)
    error_message: str | None = wire(string, "0+", nullable="0+", default=None)
    resource_type: int = wire(int8, "0+")
    resource_name: str = wire(string, "0+")


class IncrementalAlterConfigsResponse(Message, key=44, versions="0-1", flexible="1+"):
    """The outcome for each topic or broker."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    responses: list[IncrementalAlterConfigsResourceResponse] = wire(
        array(IncrementalAlterConfigsResourceResponse), "0+"
    )
