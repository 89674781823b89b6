package textcall

import (
	"strings"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/highlight"
)

// between stands between two fragments of a text.
const between = " … "

// NewHighlight reads a call of highlight. A query says nothing about names of columns but the one given.
func NewHighlight(column, text string, o Options) (*Ready, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	a, err := analysis.Find(o.Analyzer)
	if err != nil {
		return nil, err
	}
	n, err := o.lower(column, text, a)
	if err != nil {
		return nil, err
	}
	r := &Ready{marks: func() (*highlight.Highlighter, error) {
		return highlight.New(n, 0, a, highlight.Options{Pre: o.Pre, Post: o.Post, Fragments: o.Fragments, FragmentSize: o.Size})
	}}
	h, err := r.marks()
	if err != nil {
		return nil, err
	}
	r.marker.Put(h)
	return r, nil
}

// highlight marks one text; false where nothing is marked.
func (r *Ready) highlight(text string) (string, bool, error) {
	if r.marks == nil {
		return "", false, errs.New(errs.Internal, op, "the query is none of highlight")
	}
	h, _ := r.marker.Get().(*highlight.Highlighter)
	if h == nil {
		var err error
		if h, err = r.marks(); err != nil {
			return "", false, err
		}
	}
	defer r.marker.Put(h)
	parts := h.Fragments(text)
	return strings.Join(parts, between), len(parts) > 0, nil
}
