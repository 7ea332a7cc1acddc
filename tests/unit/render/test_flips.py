"""The flips on the page: worst first, both answers, and a filter that a browser really runs."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import samples
from quantgate.records import FlipCount, FlipRow, Report
from quantgate.render import html, terminal

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HARNESS = "const form = document.querySelector('[data-flips] form'), fields = form.elements;"
REPORT = """
const rows = [...document.querySelectorAll('[data-flips] tbody tr')].filter(row => !row.hidden && row.getClientRects().length);
document.title = rows.map(row => row.querySelector('th').firstChild.textContent).join(' ')
  + ' | ' + form.querySelector('output').textContent;
"""


def flip(item: str, slice_name: str, direction: str, severity: float, **fields: str) -> FlipRow:
    words = {
        "prompt": f"prompt of {item}",
        "expected": "yes",
        "reference_answer": "yes",
        "variant_answer": "no",
        **fields,
    }
    return FlipRow(
        variant="nf4",
        golden_set="everyday",
        item_id=item,
        slice=slice_name,
        direction=direction,
        severity=severity,
        **words,  # type: ignore[arg-type]
    )


def report() -> Report:
    """Fourteen regressions in two slices and three recoveries, so that some stand in the second fold."""
    found = [flip(f"r{at}", "facts" if at % 2 else "sums", "regression", 20.0 - at) for at in range(14)]
    found += [
        flip(f"c{at}", "facts", "recovery", 30.0 + at, prompt=samples.HOSTILE if at == 0 else "a bicycle")
        for at in range(3)
    ]
    return replace(samples.sample_report(), flips=tuple(found))


def test_worst_first() -> None:
    """What got worse stands before what got better, and of each the farthest move first."""
    page = html.page(report())
    order = re.findall(r'<th scope="row" class="w">([rc]\d+)', page)
    assert order == [f"r{at}" for at in range(14)] + ["c2", "c1", "c0"]


def test_a_list_that_ends_early_says_so() -> None:
    """The page and the terminal count all flips, and the page says where those are that the report leaves out."""
    made = replace(report(), flips=report().flips[:14])
    golden = made.golden_sets[0].name
    flips = tuple(replace(one, golden_set=golden) for one in made.flips)
    counted = FlipCount(variant="nf4", golden_set=golden, regressions=1500, recoveries=700, listed=14)
    made = replace(made, flips=flips, flip_counts=(counted,))
    page = html.page(made)
    assert "nf4: 1,500 items got worse, 700 got better" in page
    assert "All 2,200 are in evidence.json; report.json lists the worst 14." in page
    assert "flips: 2,200, the worst 10 of them" in terminal.show_variant(made, "nf4")
    assert "evidence.json; report.json lists" not in html.page(replace(made, flip_counts=()))


def test_the_policy_names_the_one_script() -> None:
    """The digest in the content security policy is that of the script in the page; without flips there is neither."""
    page = html.page(report())
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in page or f"script-src 'sha256-{digest}'" in page
    bare = html.page(replace(report(), flips=()))
    assert "<script" not in bare
    assert "script-src 'none'" in bare


def test_without_scripts_nothing_is_hidden_but_the_filter() -> None:
    """The form is hidden until its script runs, and no row is."""
    page = html.page(report())
    assert re.search(r'<form class="filter" hidden=""', page)
    assert not re.search(r"<tr[^>]*hidden", page)


def test_every_field_of_the_filter_has_a_label() -> None:
    """Each select and input stands inside a label with words."""
    form = re.search(r"<form.*?</form>", html.page(report()), re.S)
    assert form is not None
    labels = re.findall(r"<label>([A-Z][a-z]+)<(?:select|input)", form.group())
    assert labels == ["Variant", "Change", "Slice", "Text"]


# ---------------------------------------------------------------------------------------------- in a browser


def shown(folder: Path, acts: str, *, page: str | None = None) -> str:
    """Load the page, act on it, and return the title that the act left: the rows that can be seen, and the count."""
    text = page or html.page(report())
    text = re.sub(r"script-src [^;]*;", "script-src 'unsafe-inline';", text)
    text = text.replace("</body>", f"<script>{HARNESS}{acts}{REPORT}</script></body>")
    return browsed(folder, text)


def browsed(folder: Path, text: str) -> str:
    """The document after its scripts ran."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "<html" not in done.stdout:
        pytest.skip(f"chromium does not run here: {done.stderr[-200:]}")
    return done.stdout


def title(dom: str) -> str:
    found = re.search(r"<title>(.*?)</title>", dom, re.S)
    return found.group(1) if found else ""


@pytest.mark.slow
def test_the_page_s_own_policy_lets_the_filter_run(tmp_path: Path) -> None:
    """Under the policy as written the script runs: the form is there and counts the flips."""
    dom = browsed(tmp_path, html.page(report()))
    assert "17 of 17 flips shown" in dom
    assert not re.search(r'<form class="filter"[^>]*hidden', dom)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acts", "expected"),
    [
        ("fields.direction.value = '=recovery';", "c2 c1 c0 | 3 of 17 flips shown"),
        ("fields.slice.value = '=sums';", "r0 r2 r4 r6 r8 r10 r12 | 7 of 17 flips shown"),
        ("fields.text.value = ' BICYCLE ';", "c2 c1 | 2 of 17 flips shown"),
        (
            "fields.slice.value = '=facts'; fields.direction.value = '=regression'; fields.text.value = 'of r1';",
            "r1 r11 r13 | 3 of 17 flips shown",
        ),
        ("fields.text.value = 'no such words';", " | 0 of 17 flips shown"),
    ],
    ids=["direction", "slice", "text", "all three", "nothing"],
)
def test_the_filter_shows_what_fits(tmp_path: Path, acts: str, expected: str) -> None:
    """Rows that fit every choice can be seen, those in a closed fold too, and no others; the count says how many."""
    dom = shown(tmp_path, f"{acts} form.dispatchEvent(new Event('input'));")
    assert title(dom) == expected


@pytest.mark.slow
def test_the_page_is_as_wide_as_a_telephone_at_most(tmp_path: Path) -> None:
    """At 400 pixels nothing of the filter sticks out."""
    style = "document.querySelector('main').style.width = '400px';"
    dom = shown(tmp_path, f"{style} form.setAttribute('data-wide', form.scrollWidth);")
    found = re.search(r'data-wide="(\d+)"', dom)
    assert found is not None
    assert int(found.group(1)) <= 400
