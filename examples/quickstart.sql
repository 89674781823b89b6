-- The questions of the quickstart. The table docs holds examples/fiori-docs/docs.parquet: 778 documentation pages with
-- a 384-dimensional embedding each. Run one of your own with: bin/overlake -w warehouse sql "SELECT ..."

-- 1. An aggregate: which kinds of pages are there, and how long are they?
SELECT category, count(*) AS pages, round(avg(word_count)) AS words, max(last_modified)::DATE AS newest
FROM docs
GROUP BY category
HAVING count(*) > 1
ORDER BY pages DESC, category;

EXPLAIN SELECT category, count(*) AS pages FROM docs GROUP BY category;

-- 2. Nearest neighbours with a filter: long pages about the same thing as one page, by cosine distance. The query vector
-- is that page's own; a literal such as '[0.1, 0.2, ...]' or a parameter works the same way.
SELECT id, title, round(vector <=> (SELECT vector FROM docs WHERE id = 'local-fiori_development_portal-66-chunk-0'), 4) AS distance
FROM docs
WHERE category = 'Sapui5' AND word_count > 200
ORDER BY vector <=> (SELECT vector FROM docs WHERE id = 'local-fiori_development_portal-66-chunk-0')
LIMIT 5;

EXPLAIN SELECT id, title
FROM docs
WHERE category = 'Sapui5' AND word_count > 200
ORDER BY vector <=> (SELECT vector FROM docs WHERE id = 'local-fiori_development_portal-66-chunk-0')
LIMIT 5;

-- 3. Full text: the pages that say most about a question, by BM25.
SELECT title, category, round(bm25(content, 'custom action button in a table toolbar'), 3) AS score
FROM docs
WHERE match(content, 'custom action button in a table toolbar')
ORDER BY bm25(content, 'custom action button in a table toolbar') DESC
LIMIT 5;

EXPLAIN SELECT title
FROM docs
ORDER BY bm25(content, 'custom action button in a table toolbar') DESC
LIMIT 5;

-- 4. Both at once, inside a larger query: the twenty pages that words and meaning agree on (reciprocal rank fusion),
-- joined with an aggregate over all pages: where do the answers come from, and how large a part of their category are they?
WITH hits AS (
  SELECT id, category, word_count,
         rrf(vector <=> (SELECT vector FROM docs WHERE id = 'local-fiori_development_portal-66-chunk-0'),
             bm25(content, 'draft handling')) AS score
  FROM docs
  ORDER BY score DESC
  LIMIT 20
), totals AS (
  SELECT category, count(*) AS pages FROM docs GROUP BY category
)
SELECT t.category, count(*) AS hits, t.pages, round(100.0 * count(*) / t.pages, 1) AS percent, round(max(h.score), 4) AS best
FROM hits h JOIN totals t ON t.category = h.category
GROUP BY t.category, t.pages
ORDER BY hits DESC, t.category;

EXPLAIN SELECT id
FROM docs
ORDER BY rrf(vector <=> (SELECT vector FROM docs WHERE id = 'local-fiori_development_portal-66-chunk-0'),
             bm25(content, 'draft handling')) DESC
LIMIT 20;
