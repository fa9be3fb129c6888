"""What stands before every body: who asks for what, and which question an answer belongs to.

    request   int16 API key, int16 version, int32 correlation id, int16-counted client id or null,
              then a tag section if that version of the API is flexible
    response  int32 correlation id, then a tag section if flexible

The client id keeps its old int16 length in both forms, so that a broker can read it before it knows
whether it knows the API. ApiVersions answers never carry the tag section: the client that asks has
not learned yet what the broker speaks (KIP-511).

HOT: every request passes through `decode_request_header` (about a microsecond).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as StructError

from kbroker.protocol.errors import FrameError
from kbroker.protocol.primitives import Buffer, skip_tagged_fields
from kbroker.protocol.schema import Message

API_VERSIONS_KEY = 18

_FIXED_SIZE = 10
_NEVER = 1 << 15
_unpack_fixed = Struct(">hhih").unpack_from
_pack_plain = Struct(">i").pack
_pack_flexible = Struct(">ix").pack

RequestHeader = tuple[int, int, int, str | None, int]
"""(API key, version, correlation id, client id, position of the body)"""


def decode_request_header(buffer: Buffer, first_flexible: Mapping[int, int]) -> RequestHeader:
    """Reads the header at the start of a frame (without the frame's length).

    `first_flexible` says for each API key from which version on the header has a tag section; the
    header of an API that is not in it is read without one, which is enough to refuse it.
    """
    try:
        api_key, version, correlation_id, length = _unpack_fixed(buffer)
        position = _FIXED_SIZE
        client_id = None
        if length >= 0:
            position += length
            if position > len(buffer):
                raise FrameError("the client id runs over the end of the request")
            client_id = str(buffer[_FIXED_SIZE:position], "utf-8")
        if version >= first_flexible.get(api_key, _NEVER):
            if buffer[position]:
                position = skip_tagged_fields(buffer, position, len(buffer))
            else:
                position += 1
    except (IndexError, StructError, UnicodeDecodeError) as problem:
        raise FrameError("a request header is cut short or malformed") from problem
    return api_key, version, correlation_id, client_id, position


def response_header(correlation_id: int, flexible: bool) -> bytes:
    """The header of an answer; `flexible` as `is_response_header_flexible` says."""
    return _pack_flexible(correlation_id) if flexible else _pack_plain(correlation_id)


def is_flexible(message: type[Message], version: int) -> bool:
    """Whether a body, and a request's header, have tag sections and short lengths."""
    return version in message.flexible


def is_response_header_flexible(message: type[Message], version: int) -> bool:
    """Whether the answer's header has a tag section: as the body, but never for ApiVersions."""
    return version in message.flexible and message.api_key != API_VERSIONS_KEY


def first_flexible_versions(requests: Iterable[type[Message]]) -> dict[int, int]:
    """The table for `decode_request_header`, from the request classes that a broker knows."""
    return {request.api_key: request.flexible.start for request in requests if request.flexible}
