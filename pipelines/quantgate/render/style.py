"""How the page looks, on a screen and on paper."""

from __future__ import annotations

STYLE = """
:root { --ink: #1c2430; --muted: #56616e; --rule: #d7dde3; --band: #f5f7f9; --accent: #1d4f91; color-scheme: light; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: #fff; color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 28px 72px; }
header, section { min-width: 0; }
section { margin-top: 52px; }
p, li, dd, td, th, h1, h2, h3, pre, summary, figcaption, small { unicode-bidi: isolate; overflow-wrap: anywhere; }
td, th, td small, th small { overflow-wrap: break-word; }
h1 { font-size: 26px; line-height: 1.3; font-weight: 650; letter-spacing: -0.01em; margin: 4px 0 20px; max-width: 46em; }
h2 { font-size: 20px; font-weight: 650; margin: 0 0 16px; padding-bottom: 8px; border-bottom: 2px solid var(--ink); }
h3 { font-size: 16px; font-weight: 650; margin: 32px 0 10px; }
p { margin: 10px 0; max-width: 48em; }
small { display: block; font-size: 12px; line-height: 1.35; color: var(--muted); font-weight: 400; }
a { color: var(--accent); }
code, pre { font: 12.5px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { margin: 8px 0; padding: 10px 12px; background: var(--band); border-radius: 4px; white-space: pre-wrap; }
.brand { margin: 0; font-size: 13px; font-weight: 600; letter-spacing: 0.04em; color: var(--muted); }
.note { font-size: 13px; color: var(--muted); }
.digest { overflow-wrap: anywhere; }
.badge { display: inline-block; padding: 1px 8px; border: 1.5px solid; border-radius: 4px; font-size: 12px; line-height: 1.5;
  font-weight: 650; letter-spacing: 0.02em; max-width: 15em; }
h1 .badge { font-size: 17px; padding: 2px 12px; margin-right: 6px; vertical-align: 2px; }
.badge.pass { color: #14602b; border-color: #14602b; background: #eef7f0; }
.badge.fail { color: #fff; border-color: #98231c; background: #98231c; }
.badge.wrong { color: #fff; border-color: #5c1010; background: #5c1010; border-style: double; border-width: 4px; }
.badge.inconclusive { color: #7a4a00; border-style: dashed; background: #fff8e8; }
.badge.missing { color: #4d3a66; border-style: dotted; background: #f6f3fa; }
.badge.control { color: var(--muted); border-color: var(--muted); }
.badge.plain { color: var(--muted); border-color: transparent; padding-left: 0; font-weight: 500; }
.promotion { margin: 0 0 14px; padding: 12px 16px; border-left: 4px solid #14602b; background: var(--band); font-size: 16px; }
.promotion.none { border-left-color: var(--muted); border-left-style: double; border-left-width: 6px; }
.sentences { margin: 12px 0; padding-left: 20px; max-width: 50em; }
.sentences li { margin: 4px 0; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); gap: 12px 28px; margin: 18px 0; }
dl > div { min-width: 0; }
dt { font-size: 12px; color: var(--muted); }
dd { margin: 0; }
nav { display: flex; flex-wrap: wrap; gap: 4px 20px; margin-top: 24px; padding-top: 12px; border-top: 1px solid var(--rule); }
.scroll { overflow-x: auto; margin: 14px 0; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-size: 13px; color: var(--muted); padding: 0 0 8px; }
caption > span { display: inline-block; position: sticky; left: 0; max-width: min(100%, calc(100vw - 32px)); }
th, td { padding: 7px 10px; border-bottom: 1px solid var(--rule); vertical-align: top; text-align: left; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th { font-size: 12px; line-height: 1.3; font-weight: 600; color: var(--muted); vertical-align: bottom;
  border-bottom: 1.5px solid var(--ink); overflow-wrap: normal; }
tbody th { font-weight: 600; }
.n { text-align: right; white-space: nowrap; overflow-wrap: normal; }
thead .n { white-space: normal; }
.w { min-width: 5.5em; }
.variants th.w { min-width: 8.5em; }
.variants .w:nth-child(2) { min-width: 12.6em; }
.variants tr > :last-child { padding-right: 0 !important; }
.artifacts td:last-child, .artifacts td:last-child small { min-width: 16em; overflow-wrap: anywhere; }
td.w { max-width: 26em; }
.variants td, .variants tbody th { vertical-align: middle; }
.variants svg { display: block; width: 156px; height: auto; }
.variants th:not(:first-child), .variants td { padding-left: 7px; padding-right: 7px; }
.checks td:last-child { min-width: 16em; }
.checks td:nth-child(3) { white-space: nowrap; }
.flips td:nth-child(4) { min-width: 15em; }
.flips tbody th, .flips td:nth-child(2) { min-width: 7em; }
figure { margin: 20px 0; }
figcaption { font-weight: 650; margin-bottom: 8px; }
.drawing svg { display: block; width: 100%; min-width: 560px; max-width: 800px; height: auto; }
.chain { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 16px; margin: 12px 0; }
.chain strong { min-width: 4.5em; }
.chain ol { display: flex; flex-wrap: wrap; gap: 8px 0; list-style: none; margin: 0; padding: 0; }
.chain li { padding: 6px 14px; background: var(--band); border-radius: 4px; }
.chain li + li { margin-left: 34px; position: relative; }
.chain li + li::before { content: "\\2192"; position: absolute; left: -25px; top: 10px; color: var(--muted); }
.chain li > span { font-weight: 600; }
details { margin: 12px 0; }
td details { margin: 0; }
summary { cursor: pointer; }
section > details > summary, section > details > details > summary { font-weight: 600; }
.text { white-space: pre-wrap; }
.mark { display: block; width: fit-content; margin-top: 2px; padding: 0 6px; border: 1px solid var(--rule); border-radius: 3px;
  font-size: 11.5px; color: var(--muted); }
.mark.right { border-color: var(--ink); color: var(--ink); font-weight: 650; }
@media screen and (max-width: 760px) {
  main { padding: 20px 16px 48px; }
  h1 { font-size: 21px; }
  .stack thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .stack, .stack caption, .stack tbody, .stack tr, .stack th, .stack td { display: block; width: auto; }
  .stack tr { padding: 12px 0; border-bottom: 1.5px solid var(--ink); }
  .stack tbody th { font-size: 15px; border: 0; padding: 0 0 6px; }
  .stack td { display: grid; grid-template-columns: 9.5em minmax(0, 1fr); gap: 0 12px; border: 0; padding: 3px 0; max-width: none;
    text-align: left; white-space: normal; min-width: 0; }
  .stack td::before { content: attr(data-label); color: var(--muted); font-size: 12.5px; }
  .stack td > small, .stack td > .mark { grid-column: 2; justify-self: start; }
  .stack td > .badge { justify-self: start; }
  .checks td.none, .flips td.none { display: none; }
  .chain li + li { margin-left: 0; }
  .chain ol { flex-direction: column; gap: 22px 0; width: 100%; }
  .chain li + li::before { content: "\\2193"; left: 14px; top: -22px; }
}
@media print {
  @page { size: A4; margin: 14mm 12mm; }
  body { font-size: 9.5pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  section { margin-top: 22pt; }
  h1 { font-size: 16pt; }
  h2 { font-size: 13pt; }
  h2, h3, caption, figcaption, summary { break-after: avoid; page-break-after: avoid; }
  tr, figure, .chain, dl > div { break-inside: avoid; page-break-inside: avoid; }
  thead { display: table-header-group; }
  table { font-size: 7.8pt; }
  thead th, small, caption { font-size: 7pt; }
  th, td { padding: 3pt 4pt; }
  .scroll { overflow: visible; }
  .w, .variants th.w, .variants .w:nth-child(2) { min-width: 0; }
  .checks td:last-child, .flips td:nth-child(4) { min-width: 10em; }
  .variants svg { width: 84px; }
  .variants th:not(:first-child), .variants td { padding-left: 2pt; padding-right: 2pt; }
  .promotion { font-size: 11pt; }
  .note { font-size: 8pt; }
  .mark { font-size: 7pt; }
  .badge { font-size: 7pt; padding: 0 4px; }
  .drawing svg { min-width: 0; max-width: 165mm; }
  details::details-content { display: block; content-visibility: visible; }
  pre { font-size: 7.5pt; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""
