"""The base of all parts of the settings, and types that they share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, field_validator

from ballast.settings.written import LARGEST

_T = TypeVar("_T")

EXPERT: Final = "expert"
Expert: TypeAlias = Annotated[_T, EXPERT]
"""A setting that few ever change: `Expert[Duration]`. It stands in the second table of docs/settings.md."""


class SettingsPart(BaseModel):
    """A frozen group of settings; its fields are the variables `BALLAST_<PART>__<FIELD>` in lower case."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, coerce_numbers_to_str=True
    )

    @field_validator("*")
    @classmethod
    def _check_size(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(f"expected a number of at most {LARGEST}")
        return value


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


def _strategy(name: str) -> str:
    from ballast.scoring.strategy import names  # numpy is slow to import, and most commands need no strategy

    if name not in names():
        raise ValueError(f"expected one of {', '.join(names())}")
    return name


ModeSetting: TypeAlias = Annotated[
    Mode, BeforeValidator(_mode), WithJsonSchema({"enum": ["off", "dry-run", "on", True, False]})
]
File: TypeAlias = Annotated[Path, BeforeValidator(_path), AfterValidator(_existing)]
Positive = AfterValidator(_positive)
Strategy: TypeAlias = Annotated[str, AfterValidator(_strategy)]
"""The name of a strategy for labels, metrics or the extender."""
