"""Many processes add and search at once: nothing is lost, and no caller meets a deadlock."""

import subprocess
import sys

import pytest

import memorist

WRITER = """
import sys, time, memorist
url, number, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
end, added = time.monotonic() + seconds, 0
with memorist.open(url, embedder="none", on_near_duplicate="off") as memory:
    while time.monotonic() < end or not added:
        memory.add(f"badger {number} {added}", tags=[f"by {number}"], project=f"p{number % 3}")
        added += 1
        assert memory.search(f"badger {number}", limit=3)
        if added % 5 == 0:
            memory.add_many(f"fox {number} {added} {n}" for n in range(5))
            memory.update(memory.search(f"badger {number}", limit=1)[0].memory.id, title=f"title {added}")
print(added)
"""


@pytest.mark.parametrize(
    ("processes", "seconds"), [(4, 1.0), pytest.param(16, 60.0, marks=pytest.mark.slow)], ids=["few", "sixteen"]
)
def test_what_every_process_added_is_there(postgres_url: str, processes: int, seconds: float) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, postgres_url, str(number), str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    ended = [writer.communicate(timeout=seconds + 120) for writer in writers]

    assert [errors for _, errors in ended] == [""] * processes
    added = [int(out) for out, _ in ended]
    with memorist.open(postgres_url, embedder="none") as memory:
        assert memory.stats().memories == sum(added) + sum(5 * (count // 5) for count in added)
        for number, count in enumerate(added):
            (last,) = memory.search(f'"badger {number} {count - 1}"')
            assert last.memory.content == f"badger {number} {count - 1}"
        assert memory.check().ok
