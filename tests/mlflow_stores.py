"""The stores that MLflow may have, each empty and of its own: an SQLite file, a server over HTTP, a PostgreSQL database.

The PostgreSQL server is started for the tests that ask for one, in a folder of its own and reachable through a socket there only.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from publishing import server_in, store_in

USER = "postgres"


def programs() -> Path | None:
    """The folder with PostgreSQL's own programs: those of the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


def why_no_postgresql() -> str | None:
    """What is missing for a test on PostgreSQL; None where nothing is."""
    if programs() is None:
        return "no PostgreSQL is installed (on Debian: apt-get install postgresql)"
    try:
        create_engine("postgresql://")
    except ModuleNotFoundError as error:
        return f"the driver {error.name} is not installed (pip install 'quantgate[postgresql]')"
    if os.geteuid() == 0 and USER not in [one.pw_name for one in pwd.getpwall()]:
        return f"PostgreSQL does not run as root, and there is no user {USER}"
    return None


def _as_user(*words: str) -> None:
    """Run one of PostgreSQL's programs, as a user who may."""
    who = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.geteuid() == 0 else []
    subprocess.run([*who, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of a database of a cluster that lives for the block; format it with the name of another one."""
    folder, bin_ = Path(tempfile.mkdtemp(prefix="qg-pg-", dir="/tmp")), programs()
    assert bin_ is not None
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
    data = str(folder / "data")
    _as_user(str(bin_ / "initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    _as_user(str(bin_ / "pg_ctl"), "-D", data, "-w", "-o", options, "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql://{USER}@/{{}}?host={quote(str(folder))}"
    finally:
        _as_user(str(bin_ / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def database_in(cluster: str) -> str:
    """The address of a new database of the cluster."""
    name = f"q{uuid4().hex[:12]}"
    engine = create_engine(cluster.format("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"create database {name}"))
    engine.dispose()
    return cluster.format(name)


@contextmanager
def store_of(kind: str, folder: Path) -> Iterator[str]:
    """The address of an empty store of a kind, for the block."""
    if kind == "sqlite":
        yield store_in(folder)
    elif kind == "server":
        with server_in(folder) as uri:
            yield uri
    else:
        if (why := why_no_postgresql()) is not None:
            pytest.skip(why)
        with postgresql() as cluster:
            yield database_in(cluster)


KINDS = ("sqlite", pytest.param("server", marks=pytest.mark.slow), pytest.param("postgresql", marks=pytest.mark.slow))
