"""A worker that answers with FAISS, usearch or LanceDB; package worker says what the words mean.

Answers leave by a copy of the standard output, because libraries write to it.
"""

import ctypes
import glob
import os
import sys
import time

import numpy as np


class Faiss:
    def __init__(self):
        import faiss

        self.faiss = faiss
        faiss.omp_set_num_threads(1)

    def about(self):
        f = self.faiss
        return {
            "version": f.__version__,
            "origin": "wheel",
            "compiled": f.get_compile_options().strip().replace(" ", "+"),
            "simd": f.SIMDConfig.get_level_name(),
            "blas": self.blas(),
        }

    def blas(self):
        """The OpenBLAS that the wheel brings, and the processor that it takes this one for."""
        for path in glob.glob(os.path.join(os.path.dirname(self.faiss.__file__), "..", "faiss_cpu.libs", "libopenblas*.so*")):
            library = ctypes.CDLL(path)
            library.openblas_get_config.restype = ctypes.c_char_p
            library.openblas_get_corename.restype = ctypes.c_char_p
            version = library.openblas_get_config().decode().split()[1]
            return f"OpenBLAS-{version}-{library.openblas_get_corename().decode()}"
        return "unknown"

    def build(self, rows, w):
        f = self.faiss
        metric = f.METRIC_L2 if w["metric"] == "l2" else f.METRIC_INNER_PRODUCT
        self.index = f.index_factory(rows.shape[1], w["factory"], metric)
        if "HNSW" in w["factory"]:
            self.index.hnsw.efConstruction = int(w["efc"])
        self.index.train(rows)
        self.index.add(rows)
        self.one = f.IndexFlat(rows.shape[1], metric)
        self.one.add(rows[:1])

    def size(self):
        f, floats = self.faiss, 0
        if hasattr(self.index, "refine_index"):
            floats = f.downcast_index(self.index.refine_index).code_size * self.index.ntotal
        return {"artifact": f.serialize_index(self.index).nbytes, "floats": floats}

    def search(self, queries, k, w):
        f = self.faiss
        index = inner = self.index
        if "rerank" in w:  # as many candidates for each neighbour are ranked again
            index.k_factor = int(w["rerank"])
            inner = f.downcast_index(index.base_index)
        if "ef" in w:
            inner.hnsw.efSearch = int(w["ef"])
        if "probes" in w:
            inner.nprobe = int(w["probes"])
        if "empty" in w:
            index = self.one
        n = len(queries)
        ids = np.full((n, k), -1, dtype=np.int64)
        distances = np.empty((n, k), dtype=np.float32)
        # The call below the convenient one, its pointers made beforehand: so Python's share is that of a loop.
        calls = [(f.swig_ptr(queries[i]), f.swig_ptr(distances[i]), f.swig_ptr(ids[i])) for i in range(n)]
        ask = index.search_c
        start = time.process_time_ns()
        for query, distance, found in calls:
            ask(1, query, k, distance, found)
        return ids, time.process_time_ns() - start


class Usearch:
    def about(self):
        import usearch
        from usearch.index import Index

        return {"version": usearch.__version__, "origin": "wheel", "simd": Index(ndim=128, dtype="f32").hardware_acceleration}

    def make(self, dim, w):
        from usearch.index import Index

        metric = {"l2": "l2sq", "ip": "ip", "cosine": "cos"}[w["metric"]]
        return Index(ndim=dim, metric=metric, dtype=w["dtype"], connectivity=int(w["m"]), expansion_add=int(w["efc"]))

    def build(self, rows, w):
        self.index = self.make(rows.shape[1], w)
        self.index.add(np.arange(len(rows), dtype=np.uint64), rows, threads=1)
        self.one = self.make(rows.shape[1], w)
        self.one.add(np.arange(1, dtype=np.uint64), rows[:1], threads=1)

    def size(self):
        return {"artifact": self.index.serialized_length}

    def search(self, queries, k, w):
        index = self.one if "empty" in w else self.index
        index.expansion_search = int(w["ef"])
        start = time.process_time_ns()
        found = index.search(queries, k, threads=1)  # the library's own loop, one query after another
        took = time.process_time_ns() - start
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        ids[:, : found.keys.shape[1]] = found.keys.astype(np.int64)
        return ids, took


class Lance:
    def about(self):
        import lancedb

        return {"version": lancedb.__version__, "origin": "wheel"}

    def prepare(self, rows, w):
        """The table is there before the index is built, as it is in use."""
        import lancedb
        import pyarrow as pa

        dim = rows.shape[1]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), dim)
        columns = {"id": pa.array(np.arange(len(rows), dtype=np.int32)), "vector": vectors}
        self.few = w.get("few")
        if self.few:
            marks = np.unpackbits(np.fromfile(self.few, dtype=np.uint8), bitorder="little")[: len(rows)]
            columns["few"] = pa.array(marks.astype(np.int32))
        data = pa.table(columns)
        self.dir = os.path.join(w["dir"], "lance")
        self.table = lancedb.connect(self.dir).create_table("t", data, mode="overwrite")
        self.metric = {"l2": "l2", "ip": "dot", "cosine": "cosine"}[w["metric"]]
        if self.few:
            self.table.create_scalar_index("few", index_type="BITMAP")
        self.before = self.bytes()

    def bytes(self):
        return sum(os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(self.dir) for f in files)

    def build(self, rows, w):
        options = {"num_partitions": int(w["lists"])}
        if "sub" in w:
            options["num_sub_vectors"] = int(w["sub"])
        if "efc" in w:
            options["m"], options["ef_construction"] = int(w["m"]), int(w["efc"])
        self.table.create_index(self.metric, vector_column_name="vector", index_type=w["type"], **options)

    def size(self):
        return {"artifact": self.bytes() - self.before}

    def search(self, queries, k, w):
        if w.get("allowed") not in (None, self.few):
            raise ValueError("a table is asked for the rows that it marks, or for all")
        n = 0 if "empty" in w else len(queries)
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        start = time.process_time_ns()
        for i in range(n):
            ask = self.table.search(queries[i], vector_column_name="vector").distance_type(self.metric)
            ask = ask.limit(k).select(["id", "_distance"]).nprobes(int(w["probes"]))
            if "allowed" in w:
                ask = ask.where("few = 1", prefilter=True)
            if "rerank" in w:
                ask = ask.refine_factor(int(w["rerank"]))
            if "ef" in w:
                ask = ask.ef(int(w["ef"]))
            found = ask.to_arrow().column("id").to_numpy()
            ids[i, : len(found)] = found
        return ids, time.process_time_ns() - start


def main():
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    peer = {"faiss": Faiss, "usearch": Usearch, "lancedb": Lance}[sys.argv[1]]()
    rows, queries, common = None, {}, {}
    for line in sys.stdin:
        verb, *words = line.split()
        w = dict(word.partition("=")[::2] for word in words)
        said, payload = {}, b""
        try:
            if verb == "about":
                said = peer.about()
            elif verb == "data":
                common = w
                rows = np.memmap(w["base"], dtype=np.float32, mode="r").reshape(-1, int(w["dim"]))
                if hasattr(peer, "prepare"):
                    peer.prepare(rows, common)
            elif verb == "build":
                start = time.process_time_ns()
                peer.build(rows, common | w)
                said = {"cpu": (time.process_time_ns() - start) / 1e9}
            elif verb == "size":
                said = peer.size()
            elif verb == "search":
                name = w["queries"]
                if name not in queries:
                    queries[name] = np.fromfile(name, dtype=np.float32).reshape(-1, rows.shape[1])
                ids, took = peer.search(queries[name][: int(w["count"])], int(w["k"]), w)
                said, payload = {"cpu": took / 1e9}, ids.astype("<i4").tobytes()
            else:
                raise ValueError(f"unknown verb {verb}")
            head = "".join(f" {k}={v}" for k, v in said.items())
            out.write(f"ok{head} bytes={len(payload)}\n".encode() + payload)
        except Exception as e:
            out.write(("error " + f"{type(e).__name__}: {e}".replace("\n", " ") + "\n").encode())
        out.flush()


main()
