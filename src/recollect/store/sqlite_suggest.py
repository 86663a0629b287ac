"""stub"""

from collections.abc import Sequence

import apsw


class Vocabulary:
    def __init__(self, namespace: str) -> None: ...
    def known(self, connection: apsw.Connection, words: Sequence[str]) -> set[str]:
        return set(words)

    def similar(self, connection: apsw.Connection, word: str) -> list[str]:
        return []
