"""When two answers say the same.

Two numbers are the same if their values are, however they are written:

    0.5   1/2   \\frac{1}{2}   .50          1,000   1000   $1,000.00   1 000          2 1/2   2\\frac{1}{2}   2.5

A percentage is taken either way, because labels are: `50%` is the same as `50` and as `1/2` (but not as `0.5%`).
All other answers are compared as texts, without case, white space, a full stop at the end, signs of money and degrees,
and the LaTeX that only concerns looks.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

LONGEST = 1_000
"""Characters an answer may have: with it, every cost below is bounded."""

_MARK = re.compile(r"the answer is:", re.IGNORECASE)

_LOOKS = re.compile(r"\\?[$£€°]|\\(?=%)|\\(?:left|right)(?![a-z])|\\[!,;:()\[\] ]|\^\{?\\circ\}?")
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\{([^{}]*)\}")
_BOXED = re.compile(r"\\boxed\{(.*)\}", re.DOTALL)

_DECIMAL = r"[-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)"
_RATIO = re.compile(rf"({_DECIMAL})(?:/({_DECIMAL}))?")
_MIXED = re.compile(r"([-+]?)\s*([0-9]+)\s+([0-9]+)\s*/\s*([0-9]+)")
_PART = r"\s*(?:\{([^{}]*)\}|([0-9]))"
_FRACTION = re.compile(rf"\\frac{_PART}{_PART}")


@dataclass(frozen=True)
class Answer:
    """An answer, made ready for comparison."""

    text: str
    """What is left of it without case, white space and looks; empty: it says nothing."""
    number: Fraction | None
    """Its value, if it is a number; that of a percentage counts in per cent."""
    is_percentage: bool

    def says_the_same_as(self, other: "Answer") -> bool:
        if self.number is None or other.number is None:
            return self.text == other.text
        if self.is_percentage == other.is_percentage:
            return self.number == other.number
        percentage, plain = (self.number, other.number) if self.is_percentage else (other.number, self.number)
        return plain in (percentage, percentage / 100)


def label_in(response: str) -> str | None:
    """What follows the last "The answer is:", or None if nothing does."""
    _, *rest = _MARK.split(response)
    return (rest[-1].strip() or None) if rest else None


def read_answer(text: str) -> Answer:
    """Read an answer of at most `LONGEST` characters; if it says "The answer is:", what follows counts."""
    text = _without_looks(_MARK.split(text)[-1])
    return Answer("".join(text.split()), _number(text.removesuffix("%")), is_percentage=text.endswith("%"))


def _without_looks(text: str) -> str:
    text = _WRAPPED.sub(r"\1", text.casefold().replace("−", "-"))
    text = _LOOKS.sub("", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("{,}", ",")
    text = text.strip().removesuffix(".").rstrip()
    boxed = _BOXED.fullmatch(text)
    return boxed[1].strip() if boxed else text


def _number(text: str) -> Fraction | None:
    text = _FRACTION.sub(r" \1\2/\3\4", text).strip()  # the space keeps the 2 of 2\frac{1}{2} apart
    if mixed := _MIXED.fullmatch(text):
        sign, whole, top, bottom = mixed.groups()
        part = _quotient(top, bottom)
        return None if part is None else (int(whole) + part) * (-1 if sign == "-" else 1)
    if ratio := _RATIO.fullmatch("".join(text.split()).removeprefix("--")):
        return _quotient(ratio[1], ratio[2] or "1")
    return None


def _quotient(top: str, bottom: str) -> Fraction | None:
    divisor = Fraction(bottom.replace(",", ""))
    return Fraction(top.replace(",", "")) / divisor if divisor else None
