package segment

import (
	"encoding/json"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// Field describes a field of a segment.
type Field struct {
	Analyzer  string // fingerprint of the analyzer whose terms these are
	Positions bool   // whether the places of terms in a text are kept, which phrases need

	// Params are those for which the worth of blocks is computed: other ones may be searched with, and then less is left out.
	Params similarity.Params
}

// FieldStats describe a field of a segment that is there.
type FieldStats struct {
	posting.Stats
	Terms     int64  // different ones
	Postings  int64  // pairs of a term and a row
	MaxFreq   uint32 // how often a term stands in a row at most
	MaxLength byte   // the greatest length byte
}

// head is the section of that name, as JSON.
type head struct {
	Format int         `json:"format"`
	Rows   uint32      `json:"rows"`
	Fields []fieldHead `json:"fields"`
}

type fieldHead struct {
	Analyzer         string  `json:"analyzer"`
	Positions        bool    `json:"positions"`
	K1               float64 `json:"k1"`
	B                float64 `json:"b"`
	Docs             int64   `json:"docs"`
	SumTotalTermFreq int64   `json:"sum_total_term_freq"`
	Terms            int64   `json:"terms"`
	Postings         int64   `json:"postings"`
	MaxFreq          uint32  `json:"max_freq"`
	MaxLength        byte    `json:"max_length"`
	Blocks           int64   `json:"dictionary_blocks"`
	Dictionary       int64   `json:"dictionary_bytes"` // where the field's dictionary ends is where the next one begins
	Index            int64   `json:"index_bytes"`
}

func (h *fieldHead) params() similarity.Params { return similarity.Params{K1: h.K1, B: h.B} }

// norms are inv of the field as it was built.
func (h *fieldHead) norms() [256]float32 {
	return similarity.InverseNorms(h.params(), similarity.AverageLength(h.Docs, h.SumTotalTermFreq))
}

func (h *head) encode() ([]byte, error) {
	b, err := json.Marshal(h)
	return b, errs.Wrap(errs.Internal, "segment.write", err)
}

func decodeHead(b []byte) (*head, error) {
	h := &head{}
	if err := json.Unmarshal(b, h); err != nil {
		return nil, corrupt("the head is no JSON of the right form: %v", err)
	}
	if h.Format != format {
		return nil, errs.Newf(errs.Unsupported, "segment.open", "format %d of text indexes", h.Format)
	}
	if h.Rows > MaxRows || len(h.Fields) == 0 || len(h.Fields) > MaxFields {
		return nil, corrupt("%d rows, %d fields", h.Rows, len(h.Fields))
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.params().Check() != nil || f.Docs < 0 || f.Docs > int64(h.Rows) || f.SumTotalTermFreq < f.Docs || f.Terms < 0 || f.Postings < f.Terms ||
			f.Postings > f.SumTotalTermFreq || f.Dictionary < 0 || f.Index < 0 || f.Blocks < 0 || f.Blocks > f.Index ||
			f.Blocks != (f.Terms+termsPerBlock-1)/termsPerBlock || (f.Docs == 0) != (f.Terms == 0) {
			return nil, corrupt("the head of field %d contradicts itself", i)
		}
	}
	return h, nil
}

func (h *fieldHead) stats() FieldStats {
	return FieldStats{Stats: posting.Stats{Docs: h.Docs, SumTotalTermFreq: h.SumTotalTermFreq}, Terms: h.Terms, Postings: h.Postings, MaxFreq: h.MaxFreq, MaxLength: h.MaxLength}
}
