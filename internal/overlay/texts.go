package overlay

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/lake"
)

// Text is the kind of index that finds texts by their terms. It is over one column or several, each a field of its own.
const Text = "bm25"

// textParams are the parameters of an index of texts: the analyzer that makes terms of texts (standard), k1 and b that the
// bounds of blocks are computed for (1.2 and 0.75), and whether the places of terms are kept, for phrases (true).
var textParams = []string{"analyzer", "b", "k1", "positions"}

// checkTextParam gives a parameter of an index of texts its plain form.
func checkTextParam(name, value string) (string, string, error) {
	switch name {
	case "analyzer":
		a, err := analysis.Find(value)
		if err != nil {
			return "", "", err
		}
		return name, a.Name(), nil
	case "k1", "b":
		var o bm25.Options
		if err := o.Set(name, value); err != nil {
			return "", "", err
		}
		x := o.Params.K1
		if name == "b" {
			x = o.Params.B
		}
		return name, strconv.FormatFloat(x, 'g', -1, 64), nil
	case "positions":
		switch strings.ToLower(value) {
		case "true", "on", "1":
			return name, "true", nil
		case "false", "off", "0":
			return name, "false", nil
		}
		return "", "", errs.Newf(errs.Invalid, "overlay.define", "positions is true or false, not %s", value)
	}
	return "", "", errs.With(errs.Newf(errs.Invalid, "overlay.define", "a %s index has no parameter %s", Text, name), errs.Hint("it takes %s", strings.Join(textParams, ", ")))
}

// textField is what every field of an index of texts is, by its parameters; false when its analyzer is not there any more.
func textField(params map[string]string) (segment.Field, *analysis.Analyzer, bool) {
	a, err := analysis.Find(orDefault(params["analyzer"], analysis.Default))
	if err != nil {
		return segment.Field{}, nil, false
	}
	f := segment.Field{Analyzer: a.Fingerprint(), Positions: params["positions"] != "false", Params: similarity.DefaultParams}
	if v, ok := params["k1"]; ok {
		f.Params.K1, _ = strconv.ParseFloat(v, 64)
	}
	if v, ok := params["b"]; ok {
		f.Params.B, _ = strconv.ParseFloat(v, 64)
	}
	return f, a, true
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// textBuildParams are the parameters that artifacts depend on: the analyzer by what it does, not by its name.
func textBuildParams(params map[string]string) map[string]string {
	out := maps.Clone(params)
	if out == nil {
		out = map[string]string{}
	}
	if f, _, ok := textField(params); ok {
		out["analyzer"] = f.Analyzer
	}
	return out
}

// ofTexts makes a maker of an index of texts.
func (b *build) ofTexts(m *maker, memory int64) error {
	def := &b.defs[m.def]
	field, analyzer, ok := textField(def.Params)
	if !ok {
		return errs.New(errs.Unsupported, "overlay.build", "the index needs an analyzer that this version does not know", errs.On(def.Params["analyzer"]))
	}
	fields := make([]segment.Field, len(def.Columns))
	for i := range fields {
		fields[i] = field
	}
	x, err := segment.NewBuilder(segment.Options{Fields: fields, Memory: memory, Spill: func() (segment.SpillFile, error) { return b.o.spill() }})
	if err != nil {
		return err
	}
	var stream analysis.Stream
	nulls := int64(0)
	// A file with a term that no segment takes is not for this index. What was taken of it would count for ever, so the builder goes,
	// and the files before are taken again by another.
	var odd error
	m.add = func(ctx context.Context, first int64, columns []arrow.Array) error {
		if odd != nil {
			return nil
		}
		texts := make([]bm25.Texts, len(columns))
		for i, c := range columns {
			if texts[i], err = bm25.TextsOf(c); err != nil {
				return err
			}
		}
		for row := range columns[0].Len() {
			some := false
			for i := range texts {
				text, ok := texts[i].At(row)
				if !ok {
					continue
				}
				some = true
				stream.Reset(analyzer, text)
				if err := x.Add(uint32(first+int64(row)), i, &stream); errs.Is(err, errs.Unsupported) {
					odd = err
					return nil
				} else if err != nil {
					return err
				}
			}
			if !some {
				nulls++
			}
			if row&1023 == 0 && ctx.Err() != nil {
				return errs.Wrap(errs.Canceled, "overlay.build", ctx.Err())
			}
		}
		return nil
	}
	m.finish = func(ctx context.Context, w io.Writer, rows int64) (_, distinct int64, err error) {
		s, err := x.Finish(ctx, w, rows)
		for _, f := range s.Fields {
			distinct += f.Terms
		}
		return nulls, distinct, err
	}
	m.took = func() error {
		err := odd
		odd = nil
		return err
	}
	m.kind, m.align, m.spoils = segment.BlobType, section.Align, true
	m.close = x.Close
	return nil
}

// TextPart is an artifact of an index of texts with the files of a plan that it covers.
type TextPart struct {
	covering
	Reader *segment.Reader
}

// Damaged is told of an error of the part's reader. Unless it gives one, which ends the query, the part is as if it were not
// there, for this query or for all.
func (p *TextPart) Damaged(ctx context.Context, err error) error {
	return p.index.damaged(ctx, p.a, err)
}

// Analyzer is that of an index of texts; nil for other indexes and for an analyzer that this version does not know.
func (x *Index) Analyzer() *analysis.Analyzer {
	if x.Kind != Text {
		return nil
	}
	_, a, _ := textField(x.Params)
	return a
}

// Positions reports whether an index of texts keeps the places of terms, which phrases need.
func (x *Index) Positions() bool { return x.Kind == Text && x.Params["positions"] != "false" }

// Field is the number of the field in an index of texts that is over a column; -1 when there is none.
func (x *Index) Field(column int) int { return slices.Index(x.Columns, column) }

// TextParts opens the artifacts of an index of texts that cover files of a plan, as Parts does.
func (x *Index) TextParts(ctx context.Context, plan *lake.Plan) (parts []*TextPart, rest []int, err error) {
	all, rest, err := x.coverings(ctx, plan, func(r *reader) bool { return r.text != nil })
	for _, c := range all {
		parts = append(parts, &TextPart{covering: *c, Reader: c.r.text})
	}
	return parts, rest, err
}
