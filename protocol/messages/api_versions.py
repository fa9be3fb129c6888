"""What the broker can do: its APIs and their versions (key 18). A client's first question.

The response header stays at version 0 even where the body is flexible, because the client cannot
know yet what the broker speaks. An unknown request version is answered with a version 0 body,
error 35. Versions: 1 throttle time; 3 flexible, client software name, features; 4 lets a
feature's lowest version be 0.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, boolean, int16, int32, int64, string, wire


class ApiVersionsRequest(Message, key=18, versions="0-4", flexible="3+"):
    """Asks what the broker can do, and says which client is asking."""

    client_software_name: str = wire(string, "3+")
    client_software_version: str = wire(string, "3+")


class ApiVersion(Message):
    """The versions of one API."""

    api_key: int = wire(int16, "0+")  # type: ignore[misc]  # a field here, hides the class's own key
    min_version: int = wire(int16, "0+")
    max_version: int = wire(int16, "0+")


class SupportedFeatureKey(Message):
    """A feature that the broker could switch on."""

    name: str = wire(string, "3+")
    min_version: int = wire(int16, "3+")
    max_version: int = wire(int16, "3+")


class FinalizedFeatureKey(Message):
    """A feature that the whole cluster has switched on."""

    name: str = wire(string, "3+")
    max_version_level: int = wire(int16, "3+")
    min_version_level: int = wire(int16, "3+")


class ApiVersionsResponse(Message, key=18, versions="0-4", flexible="3+"):
    """Every API that the broker answers."""

    error_code: int = wire(int16, "0+", default=0)
    api_keys: list[ApiVersion] = wire(array(ApiVersion), "0+")
    throttle_time_ms: int = wire(int32, "1+", default=0)
    supported_features: list[SupportedFeatureKey] = wire(
        array(SupportedFeatureKey), "3+", tag=0, default=list
    )
    finalized_features_epoch: int = wire(int64, "3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = wire(
        array(FinalizedFeatureKey), "3+", tag=2, default=list
    )
    zk_migration_ready: bool = wire(boolean, "3+", tag=3, default=False)
