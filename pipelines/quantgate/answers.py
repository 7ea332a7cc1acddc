"""Answers that say nothing: empty ones, and those that read like a refusal. Counted on both sides, never decided on.

The rule for a refusal is a short list of how instruction-tuned models begin one in English: within its first
``LOOKED_AT`` characters an answer says that its writer cannot, will not or may not help, or that it is only a language
model. It misses other languages and polite detours, and it takes an honest "I cannot tell" for a refusal. So a count
means something beside the reference's count under the same rule, and nothing alone.
"""

from __future__ import annotations

import re

LOOKED_AT = 160
_UNABLE = r"(?:can(?:no|')?t|can not|am (?:not able|unable)|'m (?:not able|unable|afraid i can(?:no|')?t)|won't|will not|must decline)"
_DOING = r"(?:help|assist|answer|provide|comply|fulfil+|do that|do this|discuss|give|tell|create|write|share|support|continue)"
REFUSAL = re.compile(
    rf"\bi(?: am sorry,? (?:but )?i)? ?{_UNABLE}\b(?: \w+){{0,3}} {_DOING}\b"
    r"|\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b"
    r"|\bi(?: a|')m (?:just |only )?an? (?:ai|(?:large )?language model)\b"
    r"|\bi(?: a|')m sorry,? but\b"
    r"|\bmy (?:guidelines|programming)\b"
)


def is_empty(text: str) -> bool:
    """No character that can be seen: nothing, white space, or zero-width characters."""
    return not text.replace("\u200b", "").replace("\ufeff", "").strip()


def is_refusal(text: str) -> bool:
    """It begins like a refusal, by the rule above."""
    start = " ".join(text.replace("\u2019", "'").lower().split())[:LOOKED_AT]
    return REFUSAL.search(start) is not None
