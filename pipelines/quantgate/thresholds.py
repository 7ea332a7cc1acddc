"""The numbers that a diagnosis decides by, each with the reason for it. They are printed with every diagnosis."""

from __future__ import annotations

from quantgate.symptoms import Threshold

POOL_FULL = Threshold(
    "pool full", 0.90, "share", "running requests grow into the last blocks; above it an engine stops admitting or preempts"
)
POOL_EMPTY = Threshold("pool half empty", 0.50, "share", "below it the cache cannot be what ran out of memory")
SHOULD_FIT = Threshold("bytes that should fit", 0.75, "share", "fragments and an engine's own buffers may take the last quarter of it")
SPARE_UTILISATION = Threshold("utilisation that is spare", 0.60, "share", "half as many rows again would still stay at 90 %")
PEAK_UTILISATION = Threshold("utilisation near its peak", 0.85, "share", "counters of busy units do not reach 100 % between kernels")
SPARE_MFU = Threshold("MFU that is spare", 0.30, "share", "rows could grow by half and stay under what good kernels reach")
PEAK_MFU = Threshold("MFU near its peak", 0.50, "share", "well-tuned matrix products reach half to two thirds of the datasheet")
CHEAP_ROWS = Threshold("step growth with cheap rows", 0.80, "exponent", "doubling the batch still gives 1.15 times the tokens/s or more")
DEAR_ROWS = Threshold("step growth with dear rows", 0.90, "exponent", "doubling the batch gives 1.07 times the tokens/s or less")
WASTED_ROWS = Threshold(
    "useful share of row steps", 0.70, "share", "below it the bound on the gain is over 1.4 times, more than a serving engine costs"
)
IDLE = Threshold("idle between batches", 0.15, "share", "more than the scheduling of a busy engine takes")
FEW_ROWS = Threshold("few rows", 4.0, "rows", "some five tokens verified a row must still be far from filling the arithmetic units")
NEAR_FLOOR = Threshold(
    "step over weight-read floor", 2.0, "x", "half of the step or more is then the read that drafted tokens would share"
)
FASTER_THAN_FLOOR = Threshold(
    "step under weight-read floor", 0.95, "x", "no step is faster than the read of its weights; 5 % is left for clocks"
)
APART = Threshold("batches far enough apart", 1.3, "x", "between closer ones the scatter of a step's time would decide")
NEAR_BANDWIDTH = Threshold("MBU near its peak", 0.85, "share", "nothing reads much faster than that beside computing")
SAME_TIME = Threshold("shares of one time", 0.05, "share", "two measurements of the same time may disagree by that and both be right")

ALL = (
    POOL_FULL, POOL_EMPTY, SHOULD_FIT, SPARE_UTILISATION, PEAK_UTILISATION, SPARE_MFU, PEAK_MFU, CHEAP_ROWS, DEAR_ROWS, WASTED_ROWS, IDLE,
    FEW_ROWS, NEAR_FLOOR, FASTER_THAN_FLOOR, APART, NEAR_BANDWIDTH, SAME_TIME,
)  # fmt: skip
