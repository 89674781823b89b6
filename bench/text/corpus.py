"""Makes the texts that bench/text measures with: python3 corpus.py FOLDER

They are entries of two English dictionaries (WordNet and GCIDE, from the Debian packages wordnet-base and dict-gcide) and
one-line descriptions of Debian packages. FOLDER is where the packages were unpacked, with a file `available` that holds what
apt-cache dumpavail prints. It writes FOLDER/texts: one text a line, duplicates left out, in an order that depends on nothing
but the texts.
"""

import gzip
import hashlib
import os
import re
import sys


def wordnet(folder):
    for part in ("adj", "adv", "noun", "verb"):
        with open(os.path.join(folder, "usr/share/wordnet", "data." + part), encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.startswith("  "):
                    continue
                head, _, gloss = line.partition(" | ")
                fields = head.split()
                words = [fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16))]
                yield ", ".join(words) + ": " + gloss


def gcide(folder):
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def number(text):
        n = 0
        for c in text:
            n = 64 * n + digits.index(c)
        return n

    with gzip.open(os.path.join(folder, "usr/share/dictd/gcide.dict.dz")) as f:
        body = f.read()
    seen = set()
    with open(os.path.join(folder, "usr/share/dictd/gcide.index"), encoding="utf-8", errors="replace") as f:
        for line in f:
            word, at, length = line.rstrip("\n").split("\t")[:3]
            if word.startswith("00-database") or at in seen:
                continue
            seen.add(at)
            at = number(at)
            yield body[at : at + number(length)].decode("utf-8", errors="replace")


def packages(folder):
    name = ""
    with open(os.path.join(folder, "available"), encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("Package: "):
                name = line[9:].strip()
            elif line.startswith("Description: "):
                yield name + ": " + line[13:]


def main():
    folder = sys.argv[1]
    texts = {}
    for source in (wordnet, gcide, packages):
        n = 0
        for text in source(folder):
            text = re.sub(r"\s+", " ", text).strip()
            if text:
                texts[hashlib.sha256(text.encode()).digest()] = text
                n += 1
        print(source.__name__, n, file=sys.stderr)
    with open(os.path.join(folder, "texts"), "w", encoding="utf-8") as out:
        for key in sorted(texts):
            out.write(texts[key] + "\n")
    print(len(texts), "texts", file=sys.stderr)


if __name__ == "__main__":
    main()
