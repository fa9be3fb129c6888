"""Writes out, as straight-line Python, the codec of one message in one version.

Neighbouring fixed-size fields share one `struct`, lengths below 128 are read in line, and absent
fields cost nothing. Each `..._source` function returns lines of Python; `names` collects what these
lines refer to. `print("\\n".join(decoder_source(MetadataRequest, 12, True, {})))` shows one.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, pack, unpack_from
from typing import Any

from kbroker.protocol.errors import FrameError
from kbroker.protocol.primitives import read_uvarint, skip_tagged_fields, uvarint
from kbroker.protocol.schema import (
    MISSING,
    Field,
    Kind,
    Message,
    decoder_of,
    encoder_of,
    message_of,
)

_Names = dict[str, Any]


def compile_codec(
    cls: type[Message],
    version: int,
    flexible: bool,
    source_of: Callable[[type[Message], int, bool, _Names], list[str]],
) -> Any:
    """The function that these lines define."""
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


def compile_init(cls: type[Message]) -> Any:
    """A constructor with the message's fields as keyword arguments."""
    names: _Names = {"unset": MISSING}
    parameters, body = ["self"], ["  pass"]
    if cls.fields:
        parameters.append("*")
    for field in cls.fields:
        name = field.name
        if field.default is MISSING:
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


def decoder_source(cls: type[Message], version: int, flexible: bool, names: _Names) -> list[str]:
    """Reads a message from a buffer: codec(buf, pos, end) -> (message, next position)."""
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
    message = message_of(kind)
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


def encoder_source(cls: type[Message], version: int, flexible: bool, names: _Names) -> list[str]:
    """Appends a message to a bytearray: codec(m, out)."""
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
        message = message_of(kind)
        names[f"write_{message.__name__}"] = encoder_of(message, version, flexible)
        call = f"write_{message.__name__}(value, out)"
        if not nullable:
            return [f" {call}"]
        return [" if value is None: out.append(255)", " else:", "  out.append(1)", f"  {call}"]
    if flexible:
        null = "out.append(0)"
        length = [
            "  n = len(value) + 1",
            "  if n < 128: out.append(n)",
            "  else: out += uvarint(n)",
        ]
    else:
        packer = _struct_name("h" if kind.name == "string" else "i", names)
        null = f"out += {packer}.pack(-1)"
        length = [f"  out += {packer}.pack(len(value))"]
    lines = [
        " if value is None:",
        f"  {null}" if nullable else f"  raise ValueError('{what} may not be null')",
        " else:",
    ]
    if kind.name == "string":
        lines.append("  value = value.encode()")
    lines += length
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
