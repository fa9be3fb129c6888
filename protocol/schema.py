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
that version. The first call for a version writes out a straight-line Python function and keeps it:
neighbouring fixed-size fields share one `struct`, lengths below 128 are read in line, and absent
fields cost nothing. Classes are made by a small metaclass and not by `dataclass`, which would spend
some 40 ms of the broker's start on methods that most runs never call.

Compiled decoders raise whatever Python raises on short input (IndexError, struct.error, ...);
`Message.decode` turns all of it into FrameError: they broke the protocol, the connection closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct, pack, unpack_from
from struct import error as StructError
from typing import Any, ClassVar, Self, dataclass_transform

from kbroker.protocol.errors import FrameError
from kbroker.protocol.primitives import (
    ZERO_UUID,
    Buffer,
    read_uvarint,
    skip_tagged_fields,
    uvarint,
)

_MISSING: Any = object()
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
        if self.default is not _MISSING:
            return self.default() if isinstance(self.default, type) else self.default
        if self.kind.name == "array":
            return []
        if self.kind.name == "struct":
            return _message_of(self.kind)()
        return self.kind.zero


def wire(
    kind: Kind,
    versions: str,
    *,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    default: Any = _MISSING,
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
        cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]  # once
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
        encoder = _compile(cls, version, flexible, _encoder_source)
        cls._encoders[version, flexible] = encoder
    return encoder


def decoder_of(
    cls: type[Message], version: int, flexible: bool
) -> Callable[[Buffer, int, int], tuple[Any, int]]:
    """The compiled decoder of one version."""
    decoder = cls._decoders.get((version, flexible))
    if decoder is None:
        decoder = _compile(cls, version, flexible, _decoder_source)
        cls._decoders[version, flexible] = decoder
    return decoder


# Compiling: each _..._source function returns lines of Python; `names` collects what they refer to.

_Names = dict[str, Any]


def _message_of(kind: Kind) -> type[Message]:
    assert isinstance(kind.element, type)
    return kind.element


def _compile(
    cls: type[Message],
    version: int,
    flexible: bool,
    source_of: Callable[[type[Message], int, bool, _Names], list[str]],
) -> Any:
    if version not in cls.versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    names: _Names = {
        "FrameError": FrameError,
        "read_uvarint": read_uvarint,
        "uvarint": uvarint,
        "skip_tagged_fields": skip_tagged_fields,
        "too_short": _too_short,
        "new": cls.__new__,
        "cls": cls,
    }
    lines = source_of(cls, version, flexible, names)
    exec(compile("\n".join(lines), f"<{cls.__name__} v{version}>", "exec"), names)
    return names["codec"]


def _compile_init(cls: type[Message]) -> Any:
    names: _Names = {"unset": _MISSING}
    parameters, body = ["self"], ["  pass"]
    if cls.fields:
        parameters.append("*")
    for field in cls.fields:
        name = field.name
        if field.default is _MISSING:
            parameters.append(name)
        elif isinstance(field.default, type):
            names[f"new_{name}"] = field.default
            parameters.append(f"{name}=unset")
            body.append(f"  if {name} is unset: {name} = new_{name}()")
        else:
            names[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
        body.append(f"  self.{name} = {name}")
    source = "\n".join([f"def __init__({', '.join(parameters)}):", *body])
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), names)
    return names["__init__"]


def _absent_source(field: Field, names: _Names) -> str:
    """An expression for the absent value: a constant, except where sharing it would be unsafe."""
    value = field.absent()
    if isinstance(value, list):
        return "[]"
    mutable = isinstance(value, Message)
    names[f"absent_{field.name}"] = field.absent if mutable else value
    return f"absent_{field.name}()" if mutable else f"absent_{field.name}"


def _too_short(what: str) -> FrameError:
    return FrameError(f"{what} runs over the end of the message")


def _struct_name(letters: str, names: _Names) -> str:
    name = "S_" + letters.replace("?", "o")
    names.setdefault(name, Struct(">" + letters))
    return name


def _plain_and_tagged(cls: type[Message], version: int) -> tuple[list[Field], list[Field]]:
    present = [f for f in cls.fields if version in f.versions]
    tagged = [f for f in present if f.tag is not None and version in f.tagged]
    plain = [f for f in present if f not in tagged]
    return plain, sorted(tagged, key=lambda f: f.tag or 0)


def _decoder_source(cls: type[Message], version: int, flexible: bool, names: _Names) -> list[str]:
    plain, tagged = _plain_and_tagged(cls, version)
    lines = ["def codec(buf, pos, end):", " m = new(cls)"]
    run: list[Field] = []

    def end_run() -> None:
        if not run:
            return
        letters = "".join(f.kind.letter for f in run)
        targets = ", ".join(f"m.{f.name}" for f in run)
        comma = "," if len(run) == 1 else ""
        packer = _struct_name(letters, names)
        lines.append(f" {targets}{comma} = {packer}.unpack_from(buf, pos)")
        lines.append(f" pos += {names[packer].size}")
        run.clear()

    for field in plain:
        if field.kind.letter:
            run.append(field)
            continue
        end_run()
        lines += _read(field.kind, version, flexible, version in field.nullable, field.name, names)
        lines.append(f" m.{field.name} = value")
    end_run()
    for field in cls.fields:
        if field not in plain:
            lines.append(f" m.{field.name} = {_absent_source(field, names)}")
    if flexible and tagged:
        lines += _read_tags(tagged, version, names)
    elif flexible:
        lines += [
            " if buf[pos]: pos = skip_tagged_fields(buf, pos, end)",
            " else: pos += 1",
        ]
    lines.append(" return m, pos")
    return lines


def _read_tags(tagged: list[Field], version: int, names: _Names) -> list[str]:
    lines = [
        " count, pos = read_uvarint(buf, pos)",
        " for _ in range(count):",
        "  tag, pos = read_uvarint(buf, pos)",
        "  size, pos = read_uvarint(buf, pos)",
        "  tag_end = pos + size",
        "  if tag_end > end: raise too_short('a tagged field')",
    ]
    for field in tagged:
        lines.append(f"  if tag == {field.tag}:")
        inner = _read(field.kind, version, True, version in field.nullable, field.name, names)
        lines += ["  " + line for line in inner]
        lines.append(f"   m.{field.name} = value")
        lines.append("   if pos != tag_end: raise FrameError('a tagged field has another length')")
    lines.append("  pos = tag_end")
    return lines


def _read(
    kind: Kind, version: int, flexible: bool, nullable: bool, what: str, names: _Names
) -> list[str]:
    """Lines that read one value into `value` and move `pos`."""
    if kind.letter:
        packer = _struct_name(kind.letter, names)
        return [
            f" value = {packer}.unpack_from(buf, pos)[0]",
            f" pos += {names[packer].size}",
        ]
    if kind.name == "struct":
        return _read_struct(kind, version, flexible, nullable, names)
    lines = _read_length(kind, flexible, names)
    lines.append(" if n < 0:")
    lines.append("  value = None" if nullable else f"  raise FrameError('{what} may not be null')")
    lines.append(" else:")
    lines.append(f"  if n > end - pos: raise too_short('{what}')")
    if kind.name == "array":
        lines += _read_elements(kind, version, flexible, what, names)
        return lines
    convert = {"string": "str(buf[pos:stop], 'utf-8')", "bytes": "bytes(buf[pos:stop])"}
    lines += [
        "  stop = pos + n",
        f"  value = {convert.get(kind.name, 'buf[pos:stop]')}",
        "  pos = stop",
    ]
    return lines


def _read_length(kind: Kind, flexible: bool, names: _Names) -> list[str]:
    if flexible:
        return [
            " n = buf[pos]",
            " if n < 128: pos += 1",
            " else: n, pos = read_uvarint(buf, pos)",
            " n -= 1",
        ]
    packer = _struct_name("h" if kind.name == "string" else "i", names)
    return [f" n = {packer}.unpack_from(buf, pos)[0]", f" pos += {names[packer].size}"]


def _read_struct(
    kind: Kind, version: int, flexible: bool, nullable: bool, names: _Names
) -> list[str]:
    message = _message_of(kind)
    names[f"read_{message.__name__}"] = decoder_of(message, version, flexible)
    call = f"value, pos = read_{message.__name__}(buf, pos, end)"
    if not nullable:
        return [f" {call}"]
    return [
        " present = buf[pos]",
        " pos += 1",
        " if present > 127: value = None",
        f" else: {call}",
    ]


def _read_elements(kind: Kind, version: int, flexible: bool, what: str, names: _Names) -> list[str]:
    element = kind.element
    if isinstance(element, Kind):
        if element.letter:
            names["unpack_from"] = unpack_from
            size = Struct(">" + element.letter).size
            if element.letter == "16s":
                return [
                    f"  if n * 16 > end - pos: raise too_short('{what}')",
                    "  value = [bytes(buf[p:p + 16]) for p in range(pos, pos + 16 * n, 16)]",
                    "  pos += 16 * n",
                ]
            return [
                f"  if n * {size} > end - pos: raise too_short('{what}')",
                f"  value = list(unpack_from(f'>{{n}}{element.letter}', buf, pos))",
                f"  pos += {size} * n",
            ]
        inner = _read(element, version, flexible, False, what, names)
        return [
            "  items = []",
            "  for _ in range(n):",
            *("  " + line for line in inner),
            "   items.append(value)",
            "  value = items",
        ]
    assert element is not None
    names[f"read_{element.__name__}"] = decoder_of(element, version, flexible)
    return [
        "  value = []",
        "  for _ in range(n):",
        f"   item, pos = read_{element.__name__}(buf, pos, end)",
        "   value.append(item)",
    ]


def _encoder_source(cls: type[Message], version: int, flexible: bool, names: _Names) -> list[str]:
    plain, tagged = _plain_and_tagged(cls, version)
    lines = ["def codec(m, out):"]
    run: list[Field] = []

    def end_run() -> None:
        if run:
            packer = _struct_name("".join(f.kind.letter for f in run), names)
            lines.append(f" out += {packer}.pack({', '.join(f'm.{f.name}' for f in run)})")
            run.clear()

    for field in plain:
        if field.kind.letter:
            run.append(field)
            continue
        end_run()
        lines.append(f" value = m.{field.name}")
        lines += _write(field.kind, version, flexible, version in field.nullable, field.name, names)
    end_run()
    if flexible and tagged:
        lines += _write_tags(tagged, version, names)
    elif flexible:
        lines.append(" out.append(0)")
    if len(lines) == 1:
        lines.append(" pass")
    return lines


def _write_tags(tagged: list[Field], version: int, names: _Names) -> list[str]:
    lines = [" tags = []", " whole = out"]
    for field in tagged:
        names[f"absent_{field.name}"] = field.absent()
        lines += [
            f" value = m.{field.name}",
            f" if value != absent_{field.name}:",
            "  out = bytearray()",
        ]
        inner = _write(field.kind, version, True, version in field.nullable, field.name, names)
        lines += [" " + line for line in inner]
        lines.append(f"  tags.append((b'{_escaped(uvarint(field.tag or 0))}', out))")
    lines += [
        " whole += uvarint(len(tags))",
        " for tag, content in tags: whole += tag + uvarint(len(content)) + content",
    ]
    return lines


def _escaped(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def _write(
    kind: Kind, version: int, flexible: bool, nullable: bool, what: str, names: _Names
) -> list[str]:
    """Lines that append `value` to `out`."""
    if kind.letter:
        return [f" out += {_struct_name(kind.letter, names)}.pack(value)"]
    if kind.name == "struct":
        message = _message_of(kind)
        names[f"write_{message.__name__}"] = encoder_of(message, version, flexible)
        call = f"write_{message.__name__}(value, out)"
        if not nullable:
            return [f" {call}"]
        return [" if value is None: out.append(255)", " else:", "  out.append(1)", f"  {call}"]
    if flexible:
        null = "out.append(0)"
        length = "n = len(value) + 1; out += uvarint(n) if n > 127 else b'%c' % n"
    else:
        packer = _struct_name("h" if kind.name == "string" else "i", names)
        null = f"out += {packer}.pack(-1)"
        length = f"out += {packer}.pack(len(value))"
    lines = [
        " if value is None:",
        f"  {null}" if nullable else f"  raise ValueError('{what} may not be null')",
        " else:",
    ]
    if kind.name == "string":
        lines.append("  value = value.encode()")
    lines.append(f"  {length}")
    if kind.name != "array":
        lines.append("  out += value")
        return lines
    element = kind.element
    if isinstance(element, Kind):
        if element.letter and element.letter != "16s":
            names["pack"] = pack
            lines.append(f"  out += pack(f'>{{len(value)}}{element.letter}', *value)")
            return lines
        inner = _write(element, version, flexible, False, what, names)
        return [*lines, "  for value in value:", *("  " + line for line in inner)]
    assert element is not None
    names[f"write_{element.__name__}"] = encoder_of(element, version, flexible)
    lines.append(f"  for item in value: write_{element.__name__}(item, out)")
    return lines
