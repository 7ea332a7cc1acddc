"""Addresses of stores: no password is kept, and the environment gives it back for the same place only."""

from __future__ import annotations

import pytest

from quantgate import stores


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        ("postgresql://ada:secret@db.example.org:5432/mlflow", "postgresql://db.example.org:5432/mlflow"),
        ("https://ada:p%40ss@mlflow.example.org/x?y=1", "https://mlflow.example.org/x?y=1"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("sqlite:////data/a@b/mlflow.db", "sqlite:////data/a@b/mlflow.db"),
    ],
)
def test_no_password_is_kept(uri: str, kept: str) -> None:
    """User name and password go, everything else stays, and a file's name is no address."""
    assert stores.without_password(uri) == kept


def test_the_environment_gives_the_password_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for the place that was stored; another one in the environment is not taken instead."""
    stored = "postgresql://db.example.org/mlflow"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://ada:secret@db.example.org/mlflow")
    assert stores.with_password(stored) == "postgresql://ada:secret@db.example.org/mlflow"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://ada:secret@other.example.org/mlflow")
    assert stores.with_password(stored) == stored
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert stores.with_password(stored) == stored
