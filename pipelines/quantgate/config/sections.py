"""What every section of a config shares: strict keys, and the words that its values may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

SCHEMA_VERSION = 1
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
GRANULARITY = r"^(tensor|channel|group:[1-9][0-9]*)$"
UUID = r"^(GPU|MIG)-[0-9A-Za-z/-]+$"
COMMIT = r"^[0-9a-f]{40}$"
SHA256 = r"^[0-9a-f]{64}$"
Share = Annotated[float, Field(gt=0, lt=1)]
Limit = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
CURRENCY = r"^[A-Z]{3}$"


class Section(BaseModel):
    """Unknown keys, values of another type, and numbers that are none are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


PATTERNS: Mapping[str, str] = {
    NAME: "a name is letters, digits, '.', '_' and '-', at most 64 of them, and starts with a letter or digit",
    GRANULARITY: "must be tensor, channel, or group:<size>, for example group:64",
    UUID: "a UUID is GPU-... or MIG-..., as nvidia-smi -L prints it",
    COMMIT: "a commit is 40 digits of 0-9 and a-f",
    SHA256: "a SHA-256 is 64 digits of 0-9 and a-f",
    CURRENCY: "a currency is its three capital letters, for example EUR",
}
