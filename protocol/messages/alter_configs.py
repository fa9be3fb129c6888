"""Replaces all settings of a topic or broker by the given ones (key 33).

Versions: 2 flexible. Older tools still send it; newer ones send IncrementalAlterConfigs.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, boolean, int8, int16, int32, string, wire


class AlterableConfig(Message):
    """A setting and its new value; null goes back to the default."""

    name: str = wire(string, "0+")
    value: str | None = wire(string, "0+", nullable="0+")


class AlterConfigsResource(Message):
    """A topic or broker and all settings that it shall keep."""

    resource_type: int = wire(int8, "0+")
    resource_name: str = wire(string, "0+")
    configs: list[AlterableConfig] = wire(array(AlterableConfig), "0+")


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    """Settings to replace, or only to check."""

    resources: list[AlterConfigsResource] = wire(array(AlterConfigsResource), "0+")
    validate_only: bool = wire(boolean, "0+")


class AlterConfigsResourceResponse(Message):
    """The outcome for one topic or broker."""

    error_code: int = wire(int16, "0+", default=0)
    error_message: str | None = wire(string, "0+", nullable="0+", default=None)
    resource_type: int = wire(int8, "0+")
    resource_name: str = wire(string, "0+")


class AlterConfigsResponse(Message, key=33, versions="0-2", flexible="2+"):
    """The outcome for each topic or broker."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    responses: list[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse), "0+")
