from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from ballast.model.load_limits import quantity


@given(
    number=st.decimals(min_value=0, max_value=10**9, places=3),
    suffix=st.sampled_from(["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
)
def test_agrees_with_the_kubernetes_package(number: Decimal, suffix: str) -> None:
    assert quantity(f"{number}{suffix}") == float(parse_quantity(f"{number}{suffix}"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", 0.1),
        ("0.1", 0.1),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("1E", 1e18),
        ("+2", 2.0),
        (3, 3.0),
        (10**400, float("inf")),
    ],
)
def test_forms(text: str | int, value: float) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "m", "1 Gi", "1gi", "1KI", "ten", "1e", "0x10", "1_000", "NaN", "\u0661", "1Gi\n"]
)
def test_what_the_api_server_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        quantity(text)
