"""The exception tree. Each error carries its values and says what was found, what is allowed and what to do next.

::

    QuantgateError
    ├── UsageError               exit 2: the caller can mend it
    │   ├── ConfigError          what, in which file and line, what is allowed
    │   ├── UnknownPlugin        the name, the nearest names
    │   ├── MissingExtra         the library, the install line
    │   ├── MissingModel         where it was looked for
    │   ├── GoldenSetError       file, line, what
    │   └── ResultsError         file, line, field, what: results of another tool
    ├── MeasureError             exit 4: evidence could not be had
    │   ├── EngineError
    │   │   └── OutOfMemory      translated once, at the adapter's edge
    │   ├── NumericallyInvalid   item and position of the first non-finite number
    │   ├── NothingQuantized     a quantizer that replaced no module
    │   ├── OverRoof             a speed that the device cannot have had: which, how far above the roof
    │   ├── WorkerFailed         what a variant's process reported, with the class name of its error
    │   ├── WorkerDied           a variant's process ended without an answer
    │   ├── BrokenResults        results of another tool that are not whole
    │   └── NotComparable        which field differs
    ├── RunFolderError           exit 4: unreadable, unwritable or altered
    ├── BaselineError            exit 4: a run whose reference cannot be pinned, or a log that would be lost
    ├── SignOffError             exit 4: a decision that the evidence does not carry, or that could not be signed
    ├── SignatureError           exit 4: an envelope that is none, a signature that does not hold, a foreign key
    └── RegistryError            exit 4: a promotion that was refused or lost a race
"""

from __future__ import annotations


class QuantgateError(Exception):
    """Base of all errors that quantgate raises on purpose."""

    exit_code = 4


class UsageError(QuantgateError):
    """The caller's input is wrong; nothing was measured."""

    exit_code = 2


class ConfigError(UsageError):
    """A config or policy file that cannot be used."""

    def __init__(self, what: str, *, file: str | None = None, line: int | None = None) -> None:
        self.what, self.file, self.line = what, file, line
        place = "" if file is None else f"{file}:{line}: " if line else f"{file}: "
        super().__init__(place + what)


class UnknownPlugin(UsageError):
    """A plugin name that nothing answers to."""

    def __init__(self, seam: str, name: str, *, nearest: tuple[str, ...], known: tuple[str, ...]) -> None:
        self.seam, self.name, self.nearest, self.known = seam, name, nearest, known
        hint = f"did you mean {' or '.join(nearest)}? " if nearest else ""
        super().__init__(f"unknown {seam} '{name}': {hint}known are {', '.join(known)}")


class MissingExtra(UsageError):
    """A library that an adapter needs is not installed."""

    def __init__(self, needed_for: str, library: str, *, install: str) -> None:
        self.needed_for, self.library, self.install = needed_for, library, install
        super().__init__(f"{needed_for} needs the library '{library}', which is not installed: {install}")


class MissingModel(UsageError):
    """The model's files were not found."""


class GoldenSetError(UsageError):
    """A golden set that cannot be used."""

    def __init__(self, what: str, *, file: str, line: int | None = None) -> None:
        self.what, self.file, self.line = what, file, line
        super().__init__(f"{file}:{line}: {what}" if line else f"{file}: {what}")


class ResultsError(UsageError):
    """Per-item results of another tool that cannot be read without a guess."""

    def __init__(self, what: str, *, file: str, line: int | None = None) -> None:
        self.what, self.file, self.line = what, file, line
        super().__init__(f"{file}:{line}: {what}" if line else f"{file}: {what}")


class MeasureError(QuantgateError):
    """Evidence that could not be had."""


class EngineError(MeasureError):
    """The engine failed in a way that is not an out-of-memory."""


class OutOfMemory(EngineError):
    """A backend had no memory left, whatever its wording."""


class NumericallyInvalid(MeasureError):
    """A model produced NaN or infinity."""

    def __init__(self, what: str, *, item_id: str | None = None) -> None:
        self.what, self.item_id = what, item_id
        super().__init__(what if item_id is None else f"{what} (first at item {item_id})")


class NothingQuantized(MeasureError):
    """A quantizer replaced no module, so nothing was freed."""

    def __init__(self, requested: str, *, linear_modules: int) -> None:
        self.requested, self.linear_modules = requested, linear_modules
        super().__init__(
            f"requested {requested}, 0 of {linear_modules} layers quantized: this quantizer does not recognise the model's layer "
            "classes; choose another quantizer or mark the variant as not wanted"
        )


class OverRoof(MeasureError):
    """A measured speed above what the device can do: a fault of the measurement, whatever it was."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(what)


class WorkerFailed(MeasureError):
    """An error that was raised in a variant's process."""

    def __init__(self, *, kind: str, message: str, numerical: bool, exit_code: int) -> None:
        self.kind, self.message, self.numerical, self.exit_code = kind, message, numerical, exit_code
        super().__init__(message)


class WorkerDied(MeasureError):
    """A variant's process ended without an answer."""


class BrokenResults(MeasureError):
    """Per-item results of another tool that are not whole: a run that was cancelled, nothing to pair."""


class NotComparable(MeasureError):
    """Two pieces of evidence were taken under different conditions."""

    def __init__(self, field: str, reference: object, variant: object) -> None:
        self.field, self.reference, self.variant = field, reference, variant
        super().__init__(f"not comparable: {field} is {reference!r} for the reference and {variant!r} for the variant")


class RunFolderError(QuantgateError):
    """A run folder that is missing, unwritable, altered or of another schema version."""


class RegistryError(QuantgateError):
    """A registry that refused, failed, or in which another promotion came first."""


class BaselineError(QuantgateError):
    """A run whose reference cannot be pinned, or an earlier baseline whose log would be lost."""


class SignOffError(QuantgateError):
    """A decision that the evidence does not carry, or that could not be signed."""


class SignatureError(QuantgateError):
    """An envelope that is none, a signature that does not hold, or a key that nobody vouched for."""
