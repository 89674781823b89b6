package sql

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/paths"
)

// scanInfo is what EXPLAIN tells about one table.
type scanInfo struct {
	id     lake.Ident
	plan   *lake.Plan
	filter string
	via    string
	access *search.Access // nil: no index was thought of
}

// plan plans a table under what WHERE says of it alone, once a statement.
func (q *statement) plan(s *source) (_ *lake.Plan, err error) {
	if s.plan == nil {
		s.plan, err = s.base.Plan(q.ctx, s.ref, s.filter)
	}
	return s.plan, err
}

// scan gives a table as an expression for FROM: of a plan made with the filter the rows that an index names, fetched, and the
// other files, read.
func (q *statement) scan(s *source, plan *lake.Plan, filter predicate.Expr) (_ string, err error) {
	q.slow = q.slow || slices.ContainsFunc(plan.Schema.Fields(), func(f arrow.Field) bool { _, ok := declared.Of(f); return ok })
	info := scanInfo{id: s.base.Ident(), plan: plan}
	if filter != nil {
		info.filter = filter.String()
	}
	if info.access, err = q.access(s.base, s.ref, plan, filter, s.used); err != nil {
		return "", err
	}
	if info.access, err = q.narrow(s, plan, info.access); err != nil {
		return "", err
	}
	return q.assemble(s.base, s.ref, info)
}

// assemble gives a table as its access says: the rows to fetch, and the files to scan.
func (q *statement) assemble(t *lake.Table, ref lake.Ref, info scanInfo) (sql string, err error) {
	plan := info.plan
	info.via = "read_parquet"
	defer func() { q.scans = append(q.scans, info) }()
	fetch, rest := "", plan
	if a := info.access; a != nil && len(a.Scan) < len(plan.Files) {
		rest = plan.Only(a.Scan)
		if len(a.Fetch) > 0 {
			if fetch, err = q.fetch(t, ref, plan, a); err != nil {
				return "", err
			}
		}
	}
	if len(rest.Files) == 0 {
		info.via = "nothing to read"
		if fetch != "" {
			info.via = "fetched by position"
			return "(" + fetch + ")", nil
		}
		return coltype.Empty(plan.Schema)
	}
	var all []string
	if fetch != "" {
		all = append(all, fetch)
	}
	whole := rest
	if a := info.access; a != nil && len(a.Runs) > 0 && !shadows(plan.Schema) {
		whole = plan.Only(slices.DeleteFunc(slices.Clone(a.Scan), func(f int) bool { return a.Runs[f] != nil }))
		for _, f := range slices.Sorted(maps.Keys(a.Runs)) {
			one := plan.Only([]int{f})
			for i := range a.Runs[f] {
				read, via, err := q.read(t, ref, one, "", &a.Runs[f][i])
				if err != nil {
					return "", err
				}
				info.via, all = via, append(all, read)
				if via == readInGo {
					break // it is the whole file
				}
			}
		}
	}
	if len(whole.Files) > 0 {
		read, via, err := q.read(t, ref, whole, "", nil)
		if err != nil {
			return "", err
		}
		info.via, all = via, append(all, read)
	}
	if fetch != "" {
		info.via += " and fetched by position"
	}
	return "(" + strings.Join(all, " UNION ALL ") + ")", nil
}

// fetch gives the rows of an index as a SELECT.
func (q *statement) fetch(t *lake.Table, ref lake.Ref, plan *lake.Plan, a *search.Access) (string, error) {
	from, release, err := q.s.env.engine.NewColumnFeed(plan.Schema, a.Rows, func(columns []int) (array.RecordReader, error) {
		return t.FetchRows(q.ctx, plan, ref, a.Fetch, columns), nil
	})
	if err != nil {
		return "", err
	}
	q.release = append(q.release, release)
	return coltype.Fed(plan.Schema, from), nil
}

// readInGo is how files are read that the engine cannot reach.
const readInGo = "read in Go"

// read gives the live rows of a plan's files as a SELECT: read_parquet over them, with the table's columns by field id, and a
// predicate for deleted rows where there are any. Files that DuckDB cannot map or reach are read by the lake and fed in. also
// is what is selected besides of read_parquet; run is what is wanted of the plan's only file, nil meaning all; what is read in
// Go is all of it nevertheless.
func (q *statement) read(t *lake.Table, ref lake.Ref, plan *lake.Plan, also string, run *search.Run) (sql, via string, err error) {
	names, direct, err := q.paths(t, plan)
	if err != nil {
		return "", "", err
	}
	if !direct || plan.Deleted > 0 && shadows(plan.Schema) {
		sql, err = q.feed(t, ref, plan)
		return sql, readInGo, err
	}
	columns := make([]engine.FileColumn, plan.Schema.NumFields())
	for i, f := range plan.Schema.Fields() {
		typ, err := coltype.InFiles(f)
		if err != nil {
			return "", "", errs.With(err, errs.On(f.Name))
		}
		def, err := t.DefaultText(f.Name)
		if err != nil {
			return "", "", err
		}
		columns[i] = engine.FileColumn{ID: int32(datafile.FieldID(f)), Name: f.Name, Type: typ, Default: def}
	}
	var b strings.Builder
	// The SELECT around it hides read_parquet's virtual columns: filename would tell the engine's secret path.
	b.WriteString("SELECT *" + replaced(plan) + also + " FROM read_parquet(" + q.hide(names) + ", schema = " + q.hide(columns) + ")")
	var where []string
	if run != nil {
		where = append(where, fmt.Sprintf("file_row_number >= %d AND file_row_number < %d", run.First, run.End))
	}
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
			return "", "", err
		}
		q.release = append(q.release, release)
		where = append(where, "overlake_live("+strconv.FormatInt(id, 10)+", file_index, file_row_number)")
	}
	if len(where) > 0 {
		b.WriteString(" WHERE " + strings.Join(where, " AND "))
	}
	return b.String(), "read_parquet", nil
}

// shadows tells whether a column has the name of one of the places in files by which deleted rows are known.
func shadows(sc *arrow.Schema) bool {
	return slices.ContainsFunc(sc.Fields(), func(f arrow.Field) bool {
		return strings.EqualFold(f.Name, "file_index") || strings.EqualFold(f.Name, "file_row_number")
	})
}

// replaced replaces columns of read_parquet. It makes the values of declared types of what files hold (see coltype.Loaded), and
// takes the columns that may hold NaN away from DuckDB's pruning: Parquet's statistics leave NaN out, and its
// reader skips a row group by them although NaN is larger than every number. Negating twice changes no value, and no
// filter goes through it.
func replaced(plan *lake.Plan) string {
	var list []string
	for _, f := range plan.Schema.Fields() {
		if id := f.Type.ID(); (id == arrow.FLOAT32 || id == arrow.FLOAT64) && plan.MayHoldNaN(datafile.FieldID(f)) {
			list = append(list, "-(-"+lex.QuoteIdent(f.Name)+") AS "+lex.QuoteIdent(f.Name))
		} else if l := coltype.Loaded(f); l != "" {
			list = append(list, l+" AS "+lex.QuoteIdent(f.Name))
		}
	}
	if list == nil {
		return ""
	}
	return " REPLACE (" + strings.Join(list, ", ") + ")"
}

// paths gives the engine's paths of the files, for as long as the statement lives; false when some file needs the lake.
func (q *statement) paths(t *lake.Table, plan *lake.Plan) ([]string, bool, error) {
	files := make([]paths.Place, len(plan.Files))
	for i := range plan.Files {
		local, ok := plan.Files[i].Store.(objstore.LocalPather)
		if !ok {
			return nil, false, nil
		}
		files[i] = paths.Place{Store: local, Name: plan.Files[i].Name}
	}
	names, done, err := q.s.env.paths.Use(files, func(i int) (string, func(), error) { return q.reach(t, &plan.Files[i], files[i].Store) })
	if err != nil {
		return nil, false, err
	}
	q.release = append(q.release, done)
	return names, !slices.Contains(names, ""), nil
}

// reach makes a data file known to the engine; "" when only the lake can read it.
func (q *statement) reach(t *lake.Table, f *lake.DataFile, local objstore.LocalPather) (string, func(), error) {
	real, ok := local.LocalPath(f.Name)
	if !ok {
		return "", nil, nil
	}
	if t.ReadOnly() {
		// Files of other engines may lack field ids; ours never do.
		if needs, err := t.NeedsMapping(q.ctx, f); err != nil || needs {
			return "", nil, err
		}
	}
	return q.s.env.engine.AddFile(real)
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
	return coltype.Fed(plan.Schema, from), nil
}
