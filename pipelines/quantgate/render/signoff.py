"""The page of a sign-off: one sheet to print, for the person who signs. No network, no scripts; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from quantgate.records import SignOff, Waiver
from quantgate.render import quantities as q

DECISIONS = {"approve": "Approved", "approve_with_conditions": "Approved with conditions", "reject": "Rejected"}


def page(signed: SignOff, file: str) -> str:
    """The sheet as HTML text; ``file`` is the name of the signed statement beside it. Shows nothing that is not in the record."""
    facts, person = signed.facts, signed.signatory
    subject = signed.variant or "no variant"
    title = f"{DECISIONS[person.decision]}: {subject} of {facts.model}"
    body = "".join(
        (
            f"<h1>{_text(title)}</h1>",
            _rows("Decision", _decision(signed)),
            _rows("What was found", _found(signed)),
            _table("Verdicts", ((one.variant, q.outcome_word(one.outcome), one.because) for one in facts.verdicts)),
            _table("Waivers in use", ((one.check, one.variant, _waived(one)) for one in facts.waivers)),
            _rows("What it rests on", _rests_on(signed)),
            '<div class="sign"><p>Date and signature</p></div>',
            f'<p class="note">Signed statement: {_text(file)}. Check it with: quantgate verify {_text(file)} --key PUBLIC_KEY</p>',
        )
    )
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    head = f'<meta charset="utf-8">{policy}<title>{_text(title)}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body><main>{body}</main></body></html>\n'


def _waived(waiver: Waiver) -> str:
    return f"{waiver.owner}, until {waiver.expires}: {waiver.reason}"


def _decision(signed: SignOff) -> Iterable[tuple[str, str]]:
    person = signed.signatory
    yield "Decision", DECISIONS[person.decision]
    yield "Name", person.name
    yield "Role", person.role
    yield "Signed at", person.signed_at
    if person.conditions:
        yield "Conditions", person.conditions
    if person.comment:
        yield "Comment", person.comment


def _found(signed: SignOff) -> Iterable[tuple[str, str]]:
    facts = signed.facts
    yield "Run", f"{facts.run_id}, {facts.created_at}"
    yield "Outcome", f"{q.outcome_word(facts.outcome)}. {facts.headline}"
    yield "Variant", signed.variant or "none was chosen"
    yield "Golden sets", ", ".join(f"{one.name} {one.version} ({one.items} items)" for one in facts.golden_sets)
    yield "Policy", facts.policy_name


def _rests_on(signed: SignOff) -> Iterable[tuple[str, str]]:
    facts, place = signed.facts, signed.facts.environment
    many = f"{len(signed.checkpoint)} file{'' if len(signed.checkpoint) == 1 else 's'}"
    yield "Checkpoint", f"{many}, {signed.checkpoint_sha256}" if signed.checkpoint else "none at hand"
    yield "Evidence", facts.evidence_sha256
    yield "Policy", facts.policy_sha256
    yield "Report", facts.report_sha256
    for one in facts.golden_sets:
        yield f"Golden set {one.name}", one.sha256
    yield "Files of the run", f"{len(signed.files)}, each by its SHA-256 in the signed statement"
    yield "Code", f"quantgate {place.quantgate_version}, sources {place.source_sha256}, commit {place.commit or 'not known'}"
    yield "Machine", f"{place.platform}; {place.cpu}; Python {place.python}"


def _rows(title: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in rows)
    return f"<section><h2>{_text(title)}</h2><dl>{lines}</dl></section>"


def _table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<section><h2>{_text(title)}</h2><table>{lines}</table></section>" if lines else ""


def _text(value: str) -> str:
    return escape(q.storable(q.visible(value)))


_STYLE = """
body { font: 10pt/1.35 system-ui, "Helvetica Neue", Arial, sans-serif; color: #1c2430; margin: 0; }
main { max-width: 180mm; margin: 0 auto; padding: 8mm; }
h1 { font-size: 16pt; margin: 0 0 4mm; }
h2 { font-size: 11pt; margin: 4mm 0 1mm; border-bottom: 1px solid #1c2430; }
dl { display: grid; grid-template-columns: 36mm 1fr; gap: 0.6mm 4mm; margin: 0; }
dt { color: #56616e; }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; font-size: 9.5pt; }
td:first-child, td:nth-child(2) { overflow-wrap: normal; white-space: nowrap; }
td { padding: 0.6mm 2mm 0.6mm 0; vertical-align: top; border-bottom: 1px solid #d7dde3; overflow-wrap: anywhere; }
.sign { margin-top: 10mm; width: 90mm; border-top: 1px solid #1c2430; }
.sign p, .note { font-size: 8.5pt; color: #56616e; margin: 1mm 0; overflow-wrap: anywhere; }
@media print { @page { size: A4; margin: 10mm; } main { padding: 0; max-width: none; } }
"""
