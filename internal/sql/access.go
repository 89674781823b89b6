package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// view is the overlay of a table as the whole statement sees it; nil without indexes.
func (q *statement) view(t *lake.Table, ref lake.Ref) (*overlay.View, error) {
	key := fmt.Sprintf("%s %d %s %s", t.UUID(), ref.SnapshotID, ref.Name, ref.AsOf)
	if v, ok := q.views[key]; ok {
		return v, nil
	}
	sc, err := t.SchemaAt(ref)
	if err != nil {
		return nil, err
	}
	v, err := q.s.env.overlays.Of(t).View(q.ctx, sc)
	if err != nil {
		return nil, err
	}
	if len(v.Indexes()) == 0 {
		v = nil
	}
	if q.views == nil {
		q.views = map[string]*overlay.View{}
	}
	q.views[key] = v
	return v, nil
}

// access asks the indexes of a table which rows the filter leaves; nil when there are none to ask.
func (q *statement) access(t *lake.Table, ref lake.Ref, plan *lake.Plan, filter predicate.Expr, used int) (*search.Access, error) {
	if filter == nil || len(plan.Files) == 0 {
		return nil, nil
	}
	opts, err := q.hint()
	if err != nil {
		return nil, err
	}
	if opts.Hint == search.NoIndex {
		return nil, nil
	}
	v, err := q.view(t, ref)
	if v == nil || err != nil {
		return nil, err
	}
	if opts.Only != "" {
		at := slices.IndexFunc(v.Indexes(), func(x *overlay.Index) bool { return strings.EqualFold(x.Name, opts.Only) })
		if at < 0 {
			opts.Hint, opts.Only = search.NoHint, "" // it speaks of another table
		} else {
			opts.Only, q.hintMet = v.Indexes()[at].Name, true
		}
	}
	bound, err := t.Bind(ref, filter)
	if err != nil {
		return nil, err
	}
	opts.Columns = used
	return search.Choose(q.ctx, plan, bound, v, opts)
}

// hint reads what the statement says about indexes: a comment /*+ index */, /*+ index(name) */ or /*+ no_index */ anywhere
// in it, else the setting use_index.
func (q *statement) hint() (search.AccessOptions, error) {
	if q.hinted != nil {
		return *q.hinted, nil
	}
	var o search.AccessOptions
	words, at := lex.Hint(q.text, q.tokens)
	hints, err := lex.SplitHint(words)
	if err != nil {
		return o, lex.Errorf(q.text, at, "%v", err)
	}
	told := false
	for _, h := range hints {
		switch h.Name {
		case "index":
			o.Hint, o.Only, told = search.UseIndex, h.Inside, true
			if o.Only != "" {
				if t, err := lex.Tokens(o.Only); err == nil && len(t) == 1 && t[0].IsIdent() {
					o.Only = t[0].Name()
				}
			}
		case "no_index":
			o.Hint, told = search.NoIndex, true
		default:
			known, err := q.nearestHint(at, h.Name, h.Inside)
			if err != nil {
				return o, err
			}
			if !known {
				return o, errs.With(lex.Errorf(q.text, at, "there is no hint %q", words), errs.Hint("write /*+ index */, /*+ index(name) */, /*+ no_index */, /*+ exact */, or /*+ ef_search(100) probes(20) rerank(50) */"))
			}
		}
	}
	if !told {
		v, err := q.s.setting("use_index")
		if err != nil {
			return o, err
		}
		o.Hint = map[string]search.Hint{"auto": search.NoHint, "on": search.UseIndex, "off": search.NoIndex}[v]
	}
	q.hinted = &o
	return o, nil
}

// explainHint tells what the hint or the setting of a statement did, if there is one.
func (q *statement) explainHint() string {
	switch o := q.hinted; {
	case o == nil:
		return ""
	case o.Hint == search.NoIndex:
		return "indexes are not used: the statement or the setting use_index says so"
	case o.Only != "" && !q.hintMet:
		return "hint index(" + o.Only + ") changes nothing: no table with a condition has an index of this name"
	}
	return ""
}
