package sql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
)

// scanInfo is what EXPLAIN tells about one table.
type scanInfo struct {
	id     lake.Ident
	plan   *lake.Plan
	filter string
	via    string
}

// scan gives a table as an expression for FROM: read_parquet over the files that the filter leaves, with the table's
// columns by field id, and a predicate for deleted rows where there are any. Files that DuckDB cannot map or reach are
// read by the lake and fed in.
func (q *statement) scan(t *lake.Table, ref lake.Ref, filter predicate.Expr) (string, error) {
	plan, err := t.Plan(q.ctx, ref, filter)
	if err != nil {
		return "", err
	}
	info := scanInfo{id: t.Ident(), plan: plan, via: "read_parquet"}
	if filter != nil {
		info.filter = filter.String()
	}
	defer func() { q.scans = append(q.scans, info) }()
	if len(plan.Files) == 0 {
		info.via = "nothing to read"
		return emptyScan(plan.Schema)
	}
	paths, direct, err := q.paths(t, plan)
	if err != nil {
		return "", err
	}
	if !direct || plan.Deleted > 0 && shadows(plan.Schema) {
		info.via = "read in Go"
		return q.feed(t, ref, plan)
	}
	var b strings.Builder
	// The SELECT around it hides read_parquet's virtual columns: filename would tell the engine's secret path.
	b.WriteString("(SELECT *" + replaced(plan) + " FROM read_parquet([")
	for i, p := range paths {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("'" + p + "'")
	}
	b.WriteString("], schema = MAP {")
	for i, f := range plan.Schema.Fields() {
		typ, err := fileType(f)
		if err != nil {
			return "", errs.With(err, errs.On(f.Name))
		}
		if i > 0 {
			b.WriteString(", ")
		}
		def, err := t.DefaultText(f.Name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%d: {name: %s, type: %s, default_value: %s}", datafile.FieldID(f), quoteText(f.Name), quoteText(typ), def)
	}
	b.WriteString("})")
	if plan.Deleted > 0 {
		files := make([]engine.LiveFile, len(plan.Files))
		for i := range plan.Files {
			f := &plan.Files[i]
			files[i].Rows = f.Rows
			if f.Deletes.Len() > 0 {
				files[i].Deleted = f.Deletes.Words(f.Rows)
			}
		}
		id, release, err := q.s.env.engine.NewLive(files)
		if err != nil {
			return "", err
		}
		q.release = append(q.release, release)
		b.WriteString(" WHERE overlake_live(" + strconv.FormatInt(id, 10) + ", file_index, file_row_number)")
	}
	b.WriteByte(')')
	return b.String(), nil
}

// shadows tells whether a column has the name of one of the places in files by which deleted rows are known.
func shadows(sc *arrow.Schema) bool {
	return slices.ContainsFunc(sc.Fields(), func(f arrow.Field) bool {
		return strings.EqualFold(f.Name, "file_index") || strings.EqualFold(f.Name, "file_row_number")
	})
}

// replaced replaces columns of read_parquet. It makes the values of declared types of what files hold (see loaded), and
// takes the columns that may hold NaN away from DuckDB's pruning: Parquet's statistics leave NaN out, and its
// reader skips a row group by them although NaN is larger than every number. Negating twice changes no value, and no
// filter goes through it.
func replaced(plan *lake.Plan) string {
	var list []string
	for _, f := range plan.Schema.Fields() {
		if id := f.Type.ID(); (id == arrow.FLOAT32 || id == arrow.FLOAT64) && plan.MayHoldNaN(datafile.FieldID(f)) {
			list = append(list, "-(-"+quoteIdent(f.Name)+") AS "+quoteIdent(f.Name))
		} else if l := loaded(f); l != "" {
			list = append(list, l+" AS "+quoteIdent(f.Name))
		}
	}
	if list == nil {
		return ""
	}
	return " REPLACE (" + strings.Join(list, ", ") + ")"
}

func emptyScan(sc *arrow.Schema) (string, error) {
	cols := make([]string, sc.NumFields())
	for i, f := range sc.Fields() {
		typ, err := engineType(f)
		if err != nil {
			return "", errs.With(err, errs.On(f.Name))
		}
		cols[i] = "NULL::" + typ + " AS " + quoteIdent(f.Name)
	}
	return "(SELECT " + strings.Join(cols, ", ") + " WHERE false)", nil
}

// paths gives the engine's paths of the files; false when some file needs the lake.
func (q *statement) paths(t *lake.Table, plan *lake.Plan) ([]string, bool, error) {
	e := q.s.env
	out := make([]string, len(plan.Files))
	for i := range plan.Files {
		f := &plan.Files[i]
		local, ok := f.Store.(objstore.LocalPather)
		if !ok {
			return nil, false, nil
		}
		at := place{local, f.Name}
		e.mu.Lock()
		path, known := e.files[at]
		e.mu.Unlock()
		if !known {
			var err error
			if path, err = q.reach(t, f, local); err != nil {
				return nil, false, err
			}
			e.mu.Lock()
			e.files[at] = path
			e.mu.Unlock()
		}
		if path == "" {
			return nil, false, nil
		}
		out[i] = path
	}
	return out, true, nil
}

// reach makes a data file known to the engine; "" when only the lake can read it.
func (q *statement) reach(t *lake.Table, f *lake.DataFile, local objstore.LocalPather) (string, error) {
	real, ok := local.LocalPath(f.Name)
	if !ok {
		return "", nil
	}
	if t.ReadOnly() {
		// Files of other engines may lack field ids; ours never do.
		if needs, err := t.NeedsMapping(q.ctx, f); err != nil || needs {
			return "", err
		}
	}
	path, _, err := q.s.env.engine.AddFile(real)
	return path, err
}

// feed reads the files in Go.
func (q *statement) feed(t *lake.Table, ref lake.Ref, plan *lake.Plan) (string, error) {
	from, release, err := q.s.env.engine.NewFeed(plan.Schema, func() (array.RecordReader, error) {
		return t.LiveRows(q.ctx, plan, ref), nil
	})
	if err != nil {
		return "", err
	}
	q.release = append(q.release, release)
	cols := make([]string, plan.Schema.NumFields())
	for i, f := range plan.Schema.Fields() {
		cols[i] = quoteIdent(f.Name)
		if d, ok := declared.Of(f); ok && loaded(f) != "" {
			cols[i] = loaded(f) + " AS " + cols[i]
		} else if ok {
			cols[i] = castFunction(d.Name) + "(" + cols[i] + ") AS " + cols[i]
		} else if v, _ := f.Metadata.GetValue(icebergType); v == "uuid" {
			cols[i] = "lower(hex(" + cols[i] + "))::UUID AS " + cols[i]
		}
	}
	return "(SELECT " + strings.Join(cols, ", ") + " FROM " + from + ")", nil
}

// textStats collects what BM25 needs to know about a column: over all rows of the snapshot, whatever the statement keeps.
// A match without a score needs none of it.
func (q *statement) textStats(s *source, column string, a *analysis.Analyzer, query bm25.Query, scored bool) (bm25.Stats, error) {
	if !scored {
		return bm25.Stats{Docs: 1, SumTotalTermFreq: 1}, nil
	}
	plan, err := s.base.Plan(q.ctx, s.ref, nil)
	if err != nil {
		return bm25.Stats{}, err
	}
	files := make([]search.TextFile, len(plan.Files))
	for i := range plan.Files {
		f := &plan.Files[i]
		files[i] = search.TextFile{Key: s.base.UUID() + "\x00" + f.Path + "\x00" + column, Read: func(ctx context.Context) (array.RecordReader, error) {
			return s.base.ReadFile(ctx, f, []string{column}, s.ref, false)
		}}
	}
	return q.s.env.texts.Collect(q.ctx, files, a, query)
}
