// Package bm25 answers: how well does a text match a query?
//
// The similarity is that of room similarity. A Query is what became of the text of a query, Stats are what the formula needs
// to know of a column, a Scorer puts the two together. The package knows nothing of files: package search collects statistics
// and finds the best rows.
//
//	B1  A score depends on the text, the query, the parameters and the statistics, on nothing else: neither on how rows
//	    are split over files nor on whether an index is used.
//	B2  A row matches or not whatever its score; a text without terms matches nothing.
package bm25

// Stats are the statistics of a text column over all rows of a table. Deleted rows count until their file is rewritten,
// as in Lucene.
type Stats struct {
	Docs             int64            // rows with at least one term
	SumTotalTermFreq int64            // terms in all of them
	DocFreq          map[string]int64 // rows that have a term, for the terms asked about
}

// Merge adds the statistics of other rows.
func (s *Stats) Merge(o Stats) {
	s.Docs += o.Docs
	s.SumTotalTermFreq += o.SumTotalTermFreq
	if s.DocFreq == nil {
		s.DocFreq = make(map[string]int64, len(o.DocFreq))
	}
	for t, n := range o.DocFreq {
		s.DocFreq[t] += n
	}
}
