"""stub"""

from collections.abc import Callable, Collection, Sequence


def suggestion(
    text: str, known: Callable[[Sequence[str]], Collection[str]], similar: Callable[[str], Sequence[str]]
) -> str | None:
    return None
