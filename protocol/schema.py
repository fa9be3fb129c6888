"""A message is declared once for all its versions; each version's codec is compiled on first use.

A class lists its fields with the versions that carry them:

    class MetadataRequestTopic(Message):
        topic_id: bytes = wire(uuid, "10+", default=ZERO_UUID)
        name: str | None = wire(string, "0+", nullable="10+")

    class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
        topics: list[MetadataRequestTopic] | None = wire(
            array(MetadataRequestTopic), "0+", nullable="1+"
        )

`MetadataRequest.decode(view, version)` and `request.encode(version)` then read and write exactly
that version; the first call for a version has `compiler` write the function. Classes are made by a
small metaclass and not by `dataclass`, which would spend some 40 ms of the broker's start on
methods that most runs never call.

Compiled decoders raise whatever Python raises on short input (IndexError, struct.error, ...);
`Message.decode` turns all of it into FrameError: they broke the protocol, the connection closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import error as StructError
from typing import Any, ClassVar, Self, dataclass_transform

from kbroker.protocol.errors import FrameError
from kbroker.protocol.primitives import ZERO_UUID, Buffer

MISSING: Any = object()
_LAST = 1 << 15
_NEVER = range(0)


class Kind:
    """How one field looks on the wire: a struct letter for fixed sizes, else a name."""

    __slots__ = ("element", "letter", "name", "zero")

    def __init__(
        self,
        name: str,
        letter: str = "",
        zero: Any = None,
        element: Kind | type[Message] | None = None,
    ) -> None:
        """Keep the parts; `element` is what an array or struct is made of."""
        self.name = name
        self.letter = letter
        self.zero = zero
        self.element = element


boolean = Kind("boolean", "?", False)
int8 = Kind("int8", "b", 0)
int16 = Kind("int16", "h", 0)
uint16 = Kind("uint16", "H", 0)
int32 = Kind("int32", "i", 0)
uint32 = Kind("uint32", "I", 0)
int64 = Kind("int64", "q", 0)
float64 = Kind("float64", "d", 0.0)
uuid = Kind("uuid", "16s", ZERO_UUID)
string = Kind("string", zero="")
bytestring = Kind("bytes", zero=b"")
records = Kind("records", zero=b"")


def array(element: Kind | type[Message]) -> Kind:
    """An array of a primitive kind or of a nested message."""
    return Kind("array", element=element)


def struct(message: type[Message]) -> Kind:
    """A nested message that is not in an array."""
    return Kind("struct", element=message)


class Field:
    """One declared field: its name is set when the class is made."""

    __slots__ = ("default", "kind", "name", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        kind: Kind,
        versions: range,
        nullable: range,
        tag: int | None,
        tagged: range,
        default: Any,
    ) -> None:
        """Keep the parts; `default` is a value, or a class to make a new one of."""
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.nullable = nullable
        self.tag = tag
        self.tagged = tagged
        self.default = default

    def absent(self) -> Any:
        """The value when the version does not carry the field, or a tag was left out."""
        if self.default is not MISSING:
            return self.default() if isinstance(self.default, type) else self.default
        if self.kind.name == "array":
            return []
        if self.kind.name == "struct":
            return message_of(self.kind)()
        return self.kind.zero


def wire(
    kind: Kind,
    versions: str,
    *,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    default: Any = MISSING,
) -> Any:
    """Declares a field. Without a default the constructor demands it; a class as default (`list`,
    a nested message) means a new one each time. `tag` means always tagged, unless `tagged` names
    the versions in which it is."""
    present = parse_versions(versions)
    return Field(
        kind,
        present,
        parse_versions(nullable) if nullable else _NEVER,
        tag,
        parse_versions(tagged) if tagged else (present if tag is not None else _NEVER),
        default,
    )


@cache  # some 350 fields share two dozen ranges
def parse_versions(text: str) -> range:
    """Turns Kafka's "3+", "0-12" or "7" into a range."""
    if text.endswith("+"):
        return range(int(text[:-1]), _LAST)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
class MessageType(type):
    """Makes a slotted class out of declared fields, without generating any method yet."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        **keywords: Any,
    ) -> MessageType:
        """Moves the Field values out of the class body and into `fields`."""
        fields = []
        for attribute, value in namespace.items():
            if type(value) is Field:
                value.name = attribute
                fields.append(value)
        slots = [field.name for field in fields]
        for attribute in slots:
            del namespace[attribute]
        flexible = keywords.get("flexible")
        namespace["__slots__"] = slots
        namespace["fields"] = tuple(fields)
        namespace["versions"] = parse_versions(keywords.get("versions", "0+"))
        namespace["flexible"] = parse_versions(flexible) if flexible else _NEVER
        namespace["_encoders"] = {}
        namespace["_decoders"] = {}
        if "key" in keywords:
            namespace["api_key"] = keywords["key"]
        return super().__new__(mcls, name, bases, namespace)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any
    ) -> None:
        """Drop the class keywords, which `type` would refuse."""
        super().__init__(name, bases, namespace)


class Message(metaclass=MessageType):
    """The base of every request, response and nested structure."""

    fields: ClassVar[tuple[Field, ...]]
    api_key: ClassVar[int] = -1  # nested structures have none
    versions: ClassVar[range]
    flexible: ClassVar[range]
    _encoders: ClassVar[dict[tuple[int, bool], Callable[[Any, bytearray], None]]]
    _decoders: ClassVar[dict[tuple[int, bool], Callable[[Buffer, int, int], tuple[Any, int]]]]

    def __init__(self, **values: Any) -> None:
        """Compile the real constructor on first use, and go through it."""
        cls = type(self)
        from kbroker.protocol.compiler import compile_init

        cls.__init__ = compile_init(cls)  # type: ignore[method-assign]  # once
        cls.__init__(self, **values)

    def encode(self, version: int) -> bytes:
        """The message's bytes in this version."""
        out = bytearray()
        self.encode_into(out, version)
        return bytes(out)

    def encode_into(self, out: bytearray, version: int) -> None:
        """Appends the message's bytes in this version."""
        encoder_of(type(self), version, version in self.flexible)(self, out)

    @classmethod
    def decode(cls, buffer: Buffer, version: int, position: int = 0) -> Self:
        """Reads a message of this version that starts at `position`; FrameError if it cannot."""
        decoder = decoder_of(cls, version, version in cls.flexible)
        try:
            message, _ = decoder(buffer, position, len(buffer))
        except (IndexError, StructError, UnicodeDecodeError) as problem:
            raise FrameError(f"{cls.__name__} v{version} is cut short or malformed") from problem
        return message  # type: ignore[no-any-return]  # the compiled function makes a `cls`

    def __eq__(self, other: object) -> bool:
        """Equal if of one class and equal in every field."""
        return type(self) is type(other) and all(
            getattr(self, f.name) == getattr(other, f.name) for f in self.fields
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        """The call that would make this message."""
        inside = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.fields)
        return f"{type(self).__name__}({inside})"


def encoder_of(
    cls: type[Message], version: int, flexible: bool
) -> Callable[[Any, bytearray], None]:
    """The compiled encoder of one version; nested structures inherit the message's flexibility."""
    encoder = cls._encoders.get((version, flexible))
    if encoder is None:
        from kbroker.protocol.compiler import compile_codec, encoder_source

        encoder = compile_codec(cls, version, flexible, encoder_source)
        cls._encoders[version, flexible] = encoder
    return encoder


def decoder_of(
    cls: type[Message], version: int, flexible: bool
) -> Callable[[Buffer, int, int], tuple[Any, int]]:
    """The compiled decoder of one version."""
    decoder = cls._decoders.get((version, flexible))
    if decoder is None:
        from kbroker.protocol.compiler import compile_codec, decoder_source

        decoder = compile_codec(cls, version, flexible, decoder_source)
        cls._decoders[version, flexible] = decoder
    return decoder


def message_of(kind: Kind) -> type[Message]:
    """The class of a struct's content."""
    assert isinstance(kind.element, type)
    return kind.element
