"""A text as words, for metrics that count them: no script is dropped.

Letters and digits of any script make words; combining marks stay with their letter. Scripts that are written without
blanks (Chinese, Japanese, Thai, Lao, Khmer, Burmese) give one word a character, as is usual where no dictionary cuts
them.
"""

from __future__ import annotations

import re
import unicodedata

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff])*")
_ONE_SCRIPT_CHARACTER = re.compile(rf"([{_UNSPACED}])")


def words(text: str) -> list[str]:
    """Lower-case words of a text; punctuation separates them and is dropped."""
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def apart(text: str) -> str:
    """The text with blanks around each character of a script that is written without them."""
    return _ONE_SCRIPT_CHARACTER.sub(r" \1 ", text)
