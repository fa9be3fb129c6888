"""The declaration of one setting: name, kind, default, range, meaning, and how a text is read."""

from __future__ import annotations

from typing import Final

LONG_MAX: Final = (1 << 63) - 1
INT_MAX: Final = (1 << 31) - 1

Value = bool | int | float | str | list[str]

# Kafka's numbers of the types, as DescribeConfigs sends them.
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = 1, 2, 3, 4, 5, 6, 7

_RANGES: Final = {
    INT: (-(1 << 31), INT_MAX),
    SHORT: (-(1 << 15), (1 << 15) - 1),
    LONG: (-(1 << 63), LONG_MAX),
}


class Setting:
    """The declaration of one setting."""

    __slots__ = (
        "broker_name",
        "choices",
        "default",
        "dynamic",
        "help",
        "high",
        "kind",
        "low",
        "metaq_name",
        "name",
        "pattern",
        "unset_for_brokers",
    )

    def __init__(
        self,
        name: str,
        kind: int,
        default: Value | None,
        help: str,
        *,
        low: float | None = None,
        high: float | None = None,
        choices: tuple[str, ...] = (),
        pattern: str = "",
        broker_name: str = "",
        unset_for_brokers: bool = False,
        metaq_name: str = "",
        dynamic: bool = True,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.help = help
        self.low = low
        self.high = high
        self.choices = choices
        self.pattern = pattern
        self.broker_name = broker_name
        self.unset_for_brokers = unset_for_brokers
        self.metaq_name = metaq_name
        self.dynamic = dynamic

    def parse(self, text: str) -> Value:
        """The value that a text means; ValueError says what is allowed instead."""
        text = text.strip()
        if self.kind == BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{self.name} is true or false, not {text!r}")
            self._check_choice(text.lower())
            return text.lower() == "true"
        if self.kind in (INT, SHORT, LONG, DOUBLE):
            return self._parse_number(text)
        if self.kind == LIST:
            items = [item.strip() for item in text.split(",")] if text else []
            for item in items:
                self._check_choice(item)
            self._check_pattern(",".join(items))
            return items
        self._check_choice(text)
        return text

    def _parse_number(self, text: str) -> int | float:
        try:
            if "_" in text:  # Python would take 1_000 for a thousand
                raise ValueError
            number: int | float = float(text) if self.kind == DOUBLE else int(text)
        except ValueError:
            raise ValueError(f"{self.name} is a number, not {text!r}") from None
        kind_low, kind_high = _RANGES.get(self.kind, (None, None))
        low = self.low if self.low is not None else kind_low
        high = self.high if self.high is not None else kind_high
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(f"{self.name} lies between {low} and {high}, not {text}")
        self._check_choice(str(number))
        return number

    def _check_choice(self, item: str) -> None:
        if self.choices and item not in self.choices:
            raise ValueError(f"{self.name} is one of {', '.join(self.choices)}, not {item!r}")

    def _check_pattern(self, text: str) -> None:
        if self.pattern:
            import re

            if not re.fullmatch(self.pattern, text):
                raise ValueError(f"{self.name} has another form than {text!r}")


def text_of(value: Value | None) -> str | None:
    """A value as Kafka's tools show it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return str(value)
