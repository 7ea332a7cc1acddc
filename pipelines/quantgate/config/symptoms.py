"""Files of symptoms: YAML or JSON -> ``Symptoms``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quantgate import symptom_values
from quantgate.config.document import Document
from quantgate.errors import UsageError
from quantgate.symptoms import Symptoms, refuse as refuse_symptoms


def load_symptoms(path: Path) -> Symptoms:
    """Symptoms in a YAML or JSON file, a key each as on the command line. Raises ``ConfigError`` with file and line."""
    document = Document.read(path)
    found: dict[str, Any] = {}
    for key, written in document.values.items():
        try:
            field = symptom_values.field_of(str(key))
            found[field.attribute] = symptom_values.read(field, written)
        except ValueError as error:
            raise document.error((key,), str(error)) from None
    seen = Symptoms(**found)
    try:
        refuse_symptoms(seen)
    except UsageError as error:
        raise document.error((str(error).partition(":")[0],), str(error)) from None
    return seen
