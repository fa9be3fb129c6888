"""Settings of topics and brokers, with where each value comes from (key 32).

Versions: 1 source and synonyms; 3 type and documentation; 4 flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, boolean, int8, int16, int32, string, wire


class DescribeConfigsResource(Message):
    """A topic or broker, and the settings wanted; null means all."""

    resource_type: int = wire(int8, "0+")
    resource_name: str = wire(string, "0+")
    configuration_keys: list[str] | None = wire(array(string), "0+", nullable="0+", default=None)


class DescribeConfigsRequest(Message, key=32, versions="1-4", flexible="4+"):
    """Whose settings to tell, and how fully."""

    resources: list[DescribeConfigsResource] = wire(array(DescribeConfigsResource), "0+")
    include_synonyms: bool = wire(boolean, "1+", default=False)
    include_documentation: bool = wire(boolean, "3+", default=False)


class DescribeConfigsSynonym(Message):
    """A setting that gives the value if nothing nearer does."""

    name: str = wire(string, "1+")
    value: str | None = wire(string, "1+", nullable="0+")
    source: int = wire(int8, "1+")


class DescribeConfigsResourceResult(Message):
    """One setting: value, source, type."""

    name: str = wire(string, "0+")
    value: str | None = wire(string, "0+", nullable="0+")
    read_only: bool = wire(boolean, "0+")
    config_source: int = wire(int8, "1+", default=-1)
    is_sensitive: bool = wire(boolean, "0+")
    synonyms: list[DescribeConfigsSynonym] = wire(array(DescribeConfigsSynonym), "1+", default=list)
    config_type: int = wire(int8, "3+", default=0)
    documentation: str | None = wire(string, "3+", nullable="0+", default=None)


class DescribeConfigsResult(Message):
    """The settings of one topic or broker."""

    error_code: int = wire(int16, "0+", default=0)
    error_message: str | None = wire(string, "0+", nullable="0+", default=None)
    resource_type: int = wire(int8, "0+")
    resource_name: str = wire(string, "0+")
    configs: list[DescribeConfigsResourceResult] = wire(
        array(DescribeConfigsResourceResult), "0+", default=list
    )


class DescribeConfigsResponse(Message, key=32, versions="1-4", flexible="4+"):
    """Settings of everything asked for."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    results: list[DescribeConfigsResult] = wire(array(DescribeConfigsResult), "0+")
