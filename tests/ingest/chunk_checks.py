"""What tests of every reader check of the chunks that it makes."""

import re
from collections.abc import Sequence

from hypothesis import strategies as st

from memorist.embed.base import TokenCounter
from memorist.ingest.chunk import MAX_TOKEN_CHARACTERS, OVERLAP_DIVISOR, Chunk


def words(text: str) -> int:
    return len(text.split())


def editor_lines(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))


def measure_tokens(text: str, count: TokenCounter) -> int:
    """Return the number of tokens, or that which a text so long must have at least."""
    return max(count(text), -(-len("".join(text.split())) // MAX_TOKEN_CHARACTERS))


def assert_sound(
    text: str, chunks: Sequence[Chunk], budget: int, count: TokenCounter = words, first_line: int = 1
) -> None:
    """Check what holds for the chunks of any text: exact lines, all there is to see, in order, within the budget."""
    lines = editor_lines(text)
    whole = "\n".join(lines)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    done = offsets[first_line - 1]
    for chunk in chunks:
        assert chunk.text.strip()
        assert count(chunk.text) <= budget or len(chunk.text) == 1
        assert first_line <= chunk.start_line <= chunk.end_line <= len(lines)
        own = lines[chunk.start_line - 1 : chunk.end_line]
        start = offsets[chunk.start_line - 1]
        visible = done + len(whole[done:]) - len(whole[done:].lstrip())
        if chunk.text != "\n".join(own):
            assert chunk.text in "\n".join(own)
            assert any(measure_tokens(line + "\n", count) > budget for line in own), "cut within a line that fits"
            start = whole.rfind(chunk.text, start, visible + len(chunk.text))
        assert 0 <= start <= visible, "something is missing before it"
        assert start + len(chunk.text) > done, "nothing in it is new"
        if start < done:
            assert measure_tokens(whole[start:done], count) <= max(1, budget // OVERLAP_DIVISOR)
        done = start + len(chunk.text)
    assert not whole[done:].strip(), "something is missing at the end"


COUNTS: dict[str, TokenCounter] = {
    "words": words,
    "characters": len,
    "a quarter of the characters": lambda text: len(text) // 4,  # much less for lines than for what they make up
    "a token more for each line end": lambda text: len(text.split()) + 2 * text.count("\n"),
    "nothing": lambda text: 0,
    "one for any": lambda text: 1,
}
ANY_COUNT = st.sampled_from(sorted(COUNTS))
