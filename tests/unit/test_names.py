"""Alias names are refused at config time, by the strictest rules of any registry."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quantgate.errors import ConfigError
from quantgate.names import check_alias


@pytest.mark.parametrize("name", ["champion", "candidate-nf4", "out_2", "x" * 255, "v1-rc", "latest2"])
def test_usable_names_pass(name: str) -> None:
    """Letters, digits, '_' and '-', up to 255 of them, are an alias."""
    check_alias(name)


@pytest.mark.parametrize("name", ["latest", "Latest", "v1", "V12", "prod/eu", "", "x" * 256, "a b", "a\n", "ünï"])
def test_other_names_are_refused(name: str) -> None:
    """A name that any registry refuses is a ConfigError that shows a usable one."""
    with pytest.raises(ConfigError, match="candidate-nf4"):
        check_alias(name)


def test_the_rules_need_no_library() -> None:
    """Config can be checked without loading MLflow."""
    code = "import sys, quantgate.names; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": "pipelines"}, check=False).returncode == 0
