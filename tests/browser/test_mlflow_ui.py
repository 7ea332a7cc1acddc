"""What a person reads in MLflow's own UI: a run on fakes, published, promoted, and looked at through a headless chromium."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from chain import Chain
from inline import inline_executor
from publishing import store_in

ROOT = Path(__file__).parents[2]
CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
LONG_S = 240.0

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no chromium with its driver (Debian: apt-get install chromium-driver)"),
]
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip install 'quantgate[browser]')")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the smoke config in one SQLite store; the second one's int8 is out, a second candidate on trial."""
    root = tmp_path_factory.mktemp("ui")
    shutil.copytree(ROOT / "golden_sets" / "smoke", root / "golden_sets" / "smoke")
    shutil.copytree(ROOT / "configs" / "policies", root / "policies")
    settings = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8"))
    del settings["provenance"]
    settings |= {"cache": "cache", "executor": "inline", "out": "reports", "sinks": ["folder", "junit", "mlflow"]}
    settings |= {"golden_sets": ["golden_sets/smoke/v1"], "promotion": {"registry": "mlflow", "challenger": "challenger"}}
    settings["model"]["path"] = "golden_sets/smoke/v1"
    settings["variants"][2]["options"]["error_rate"] = 0.206
    (root / "run.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    store_in(root / "reports")
    chain = Chain(root=root)
    with inline_executor():
        for _ in range(2):
            done = chain.cli("run", root / "run.yaml", "--ci")
            assert done.code == 0, done.err
    return root


@pytest.fixture(scope="module")
def pages(folder: Path) -> Iterator[tuple[str, str]]:
    """The address that ``quantgate ui`` says, and that of its server, while it runs on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "quantgate", "ui", "--reports", str(folder / "reports"), "--port", str(port)]
    log = (folder / "ui.log").open("w+")
    process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        server = f"http://127.0.0.1:{port}"
        _wait_for(server, process)
        said = (folder / "ui.log").read_text(encoding="utf-8").partition(" for ")[0]
        yield said.rpartition(" ")[2], server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
        log.close()


def _wait_for(server: str, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + LONG_S
    while time.monotonic() < end_s:
        assert process.poll() is None, "the UI's server ended"
        with suppress(OSError), urllib.request.urlopen(f"{server}/health", timeout=5):
            return
        time.sleep(0.25)
    raise TimeoutError(server)


class Person:
    """Somebody with a browser: goes to an address and reads what stands there."""

    def __init__(self, driver: Any, shots: Path | None) -> None:
        self.driver, self.shots = driver, shots

    def read(self, address: str, *wanted: str, name: str = "") -> str:
        """The page's text once everything that is looked for stands on it; whatever is missing is named."""
        self.driver.get("about:blank")
        self.driver.get(address)
        end_s = time.monotonic() + LONG_S
        while missing := [one for one in wanted if one not in self.text]:
            assert time.monotonic() < end_s, f"{missing} not on the page:\n{self.text}"
            time.sleep(0.5)
        if self.shots is not None and name:
            time.sleep(3)
            self.driver.save_screenshot(str(self.shots / f"{name}.png"))
        return self.text

    @property
    def text(self) -> str:
        """What stands on the page, on one line."""
        return " ".join(str(self.driver.execute_script("return document.body ? document.body.innerText : ''")).split())

    def found(self, script: str) -> Any:
        """What a script finds on the page, once it finds anything."""
        end_s = time.monotonic() + LONG_S
        while not (found := self.driver.execute_script(script)):
            assert time.monotonic() < end_s, f"nothing found by {script}"
            time.sleep(0.5)
        return found


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    """A chromium without a window. ``QUANTGATE_SCREENSHOTS`` names a folder for pictures of the pages, for people."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=2600,1300"):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    shots = os.environ.get("QUANTGATE_SCREENSHOTS")
    try:
        yield Person(driver, Path(shots) if shots else None)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def ids(folder: Path) -> dict[str | None, str]:
    """Variant -> id of its run in the last quantgate run, None for the run itself."""
    from quantgate.sinks.mlflow_store import Store

    last = max(path.parent.name for path in (folder / "reports").glob("*/run.json"))
    store = Store(f"sqlite:///{folder / 'reports' / 'mlflow.db'}")
    experiment = store.client.get_experiment_by_name("quantgate").experiment_id
    return {variant: run.info.run_id for variant, run in store.runs(experiment, last).items()}


def test_the_table_compares_the_variants(pages: tuple[str, str], person: Person) -> None:
    """The address that `quantgate ui` prints opens every variant as a row, with verdict, bound, margin and memory as columns."""
    text = person.read(pages[0], "8 matching runs", "quality/smoke/loss_upper", "known_bad", name="table")
    for word in ("verdict", "role", "control_ok", "promoted", "quality/smoke/loss", "quality/smoke/margin", "float32", "int8", "int2"):
        assert word in text.split()
    rows = person.found("return [...document.querySelectorAll('[role=row]')].map(row => row.innerText.split(/\\s*\\n\\s*/).join(' '))")
    shown = " | ".join(rows)
    assert all(word in shown for word in ("pass", "fail", "candidate", "reference", "0.03"))
    assert [word for word in text.split() if word in ("true", "false")].count("true") == 3  # one is out, two controls are right


def test_the_charts_draw_parallel_coordinates_and_a_scatter(pages: tuple[str, str], person: Person) -> None:
    """The view's own section holds both, over metrics that every candidate has under the same name."""
    person.read(f"{pages[0]}&compareRunsMode=CHART", "What decides", "Parallel Coordinates", "memory/freed_share", name="charts")
    assert person.found("return document.querySelectorAll('.parcoords-line-layer, .parcoords canvas, canvas').length")
    assert person.found("return document.querySelectorAll('.scatterlayer .point').length") >= 2


def test_the_page_of_a_run(pages: tuple[str, str], person: Person, ids: dict[str | None, str]) -> None:
    """The run's description is the verdict table, and its children are linked."""
    text = person.read(f"{pages[1]}/#/experiments/1/runs/{ids[None]}", "Child runs", "int2", "Batch fits", name="run")
    for word in ("Verdict", "reference", "PASS", "smoke v1", "evidence_sha256", "exit_code"):
        assert word in text


def test_the_page_of_a_variant(pages: tuple[str, str], person: Person, ids: dict[str | None, str]) -> None:
    """Verdict and alias as tags, figures as metrics, scheme and bits as params, and a sentence that says why."""
    text = person.read(f"{pages[1]}/#/experiments/1/runs/{ids['int8']}", "quality/smoke/loss_upper", "scheme", name="variant")
    for word in ("verdict : pass", "promoted : ", "97.5 % confidence", "Parent run", "registered_version : fake-model", "w8a16"):
        assert word in text


def test_figures_tables_and_pages_open(pages: tuple[str, str], person: Person, ids: dict[str | None, str]) -> None:
    """A figure is drawn with a size, each item is a row of a table beside the reference's, the report opens in its frame."""
    base = f"{pages[1]}/#/experiments/1/runs"
    person.read(f"{base}/{ids[None]}/artifacts/figures/throughput.svg", "throughput.svg", "report.html", name="figure")
    assert person.found("return Math.max(...[...document.querySelectorAll('img[src^=blob]')].map(one => one.naturalWidth), 0)") >= 300
    text = person.read(f"{base}/{ids['int8']}/artifacts/items.json", "reference_value", "lost", name="items")
    assert all(word in text for word in ("golden_set", "answered", "expected", "flip"))
    person.read(f"{base}/{ids[None]}/artifacts/report.html", "report.html", name="report")
    person.driver.switch_to.frame(person.found("return document.querySelector('iframe[src^=blob]')"))
    try:
        assert "int8" in person.found("return document.body.innerText")
    finally:
        person.driver.switch_to.default_content()


def test_system_metrics_are_there(pages: tuple[str, str], person: Person, ids: dict[str | None, str]) -> None:
    """What the machine did stands on the run's own tab for it."""
    address = f"{pages[1]}/#/experiments/1/runs/{ids[None]}/system-metrics"
    person.read(address, "cpu_utilization_percentage", "system_memory_usage_megabytes", name="system")


def test_the_model_has_its_aliases(pages: tuple[str, str], person: Person) -> None:
    """The registry shows versions with champion and challenger, and a version its digests and where its report is."""
    text = person.read(f"{pages[1]}/#/models/fake-model", "champion", "challenger", name="model")
    assert "Version" in text
    text = person.read(f"{pages[1]}/#/models/fake-model/versions/1", "evidence_sha256", name="version")
    assert all(word in text for word in ("policy_sha256", "artifact_path", "outcome", "runs:/"))
