"""faiss, approximate: an HNSW graph of float32 vectors."""

from typing import Any

from faiss_flat import FaissFlat
from servant import DIMENSIONS, serve

NEIGHBOURS = 32


class FaissHnsw(FaissFlat):
    efforts = (16, 64, 128, 256, 512, 1024)

    def make_index(self, faiss: Any) -> Any:
        return faiss.IndexHNSWFlat(DIMENSIONS, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)

    def set_effort(self, effort: int) -> None:
        self._index.hnsw.efSearch = effort


if __name__ == "__main__":
    serve(FaissHnsw)
