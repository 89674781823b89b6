"""Answers the questions of bench/text with Tantivy, by its package for Python; worker.go says how they look.

One thread writes, one commit makes one segment. The time that Python itself takes is measured apart: that of making documents
when an index is built, that of searching for nothing when it is asked.
"""

import json
import os
import resource
import shutil
import sys

import tantivy


def processor():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


class Worker:
    def build(self, q):
        folder = os.path.join(q["folder"], "tantivy")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("body", stored=False, tokenizer_name="whitespace", index_option="position")
        self.schema = builder.build()
        with open(q["texts"], encoding="utf-8") as f:
            texts = f.read().split("\n")[:-1]
        before = processor()
        for text in texts:
            d = tantivy.Document()
            d.add_text("body", text)
        loop = processor() - before
        before = processor()
        index = tantivy.Index(self.schema, path=folder)
        writer = index.writer(heap_size=1 << 30, num_threads=1)
        for text in texts:
            d = tantivy.Document()
            d.add_text("body", text)
            writer.add_document(d)
        writer.commit()
        writer.wait_merging_threads()
        cpu = processor() - before
        index.reload()
        self.searcher = index.searcher()
        if self.searcher.num_segments != 1:
            raise RuntimeError("%d segments" % self.searcher.num_segments)
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        return {"name": tantivy.__version__, "cpu": cpu - loop, "loop": loop, "bytes": size}

    def query(self, kind, terms):
        q = tantivy.Query
        if kind == "term":
            return q.term_query(self.schema, "body", terms[0], "freq")
        if kind == "phrase":
            return q.phrase_query(self.schema, "body", terms)
        occur = tantivy.Occur.Must if kind == "and" else tantivy.Occur.Should
        return q.boolean_query([(occur, q.term_query(self.schema, "body", t, "freq")) for t in terms])

    def ask(self, q):
        queries = [self.query(q["class"], terms) for terms in q["queries"]]
        nothing = tantivy.Query.empty_query()
        k, count, search = q["k"], q["count"], self.searcher.search
        out = []
        before = processor()
        for x in queries:
            search(nothing, k, count=count)
        loop = processor() - before
        before = processor()
        for x in queries:
            out.append(search(x, k, count=count))
        cpu = processor() - before
        a = {"cpu": cpu - loop, "loop": loop}
        if q["answers"]:
            a["hits"] = [[h[1].doc for h in r.hits] for r in out]
            a["scores"] = [[h[0] for h in r.hits] for r in out]
            a["counts"] = [r.count if count else 0 for r in out]
        return a


def main():
    worker = Worker()
    for line in sys.stdin:
        q = json.loads(line)
        try:
            a = worker.build(q) if q["op"] == "build" else worker.ask(q)
        except Exception as e:  # the other side says what went wrong
            a = {"error": "%s: %s" % (type(e).__name__, e)}
        print(json.dumps(a), flush=True)


if __name__ == "__main__":
    main()
