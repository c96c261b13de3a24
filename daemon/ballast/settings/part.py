"""The base of all parts of the settings, and types that they share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema


class SettingsPart(BaseModel):
    """A frozen group of settings; its fields are the variables `BALLAST_<PART>__<FIELD>` in lower case."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
    )


class Mode(StrEnum):
    """What a part may do: nothing, plan and record, or act."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ON = "on"


def _mode(value: object) -> object:
    """YAML reads a bare `on` or `off` as a boolean."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _positive(value: float) -> float:
    if not value > 0:
        raise ValueError("expected a value larger than 0")
    return value


def _path(value: object) -> object:
    return Path(value).expanduser() if isinstance(value, str) else value


def _existing(path: Path) -> Path:
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise ValueError(f"expected a readable file ({error.strerror})") from None


ModeSetting: TypeAlias = Annotated[
    Mode, BeforeValidator(_mode), WithJsonSchema({"enum": ["off", "dry-run", "on", True, False]})
]
File: TypeAlias = Annotated[Path, BeforeValidator(_path), AfterValidator(_existing)]
Positive = AfterValidator(_positive)
