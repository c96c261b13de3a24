"""How gojay 1.2.13, the JSON reader inside Trimaran, turns digits into a float (decode_number_float.go)."""

import math

MAX_INT64 = 2**63 - 1


def parse_float(text: str) -> float:
    """int64(all digits) / 10^k, with its overflow; exponents are refused here, as nothing should send them."""
    whole, _, fraction = text.partition(".")
    if not whole.isdigit() or (fraction and not fraction.isdigit()):
        raise ValueError(f"not a plain decimal: {text}")
    digits = int(whole + fraction)
    if digits > MAX_INT64:
        digits = (digits + 2**63) % 2**64 - 2**63
    value = float(digits) / float(10 ** len(fraction))
    assert math.isfinite(value)
    return value
