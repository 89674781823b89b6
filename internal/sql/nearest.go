package sql

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/macro"
	"github.com/overlakedb/overlake/internal/sql/tree"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// ORDER BY distance LIMIT n of a table with an index of vectors. In the table's place come the rows that the index names,
// and the files that it does not cover; the statement stays as it is, so distances, order and WHERE are the engine's.
//
// Which rows may be named is known before the index is asked, so that n of them come back: those of the indexes of WHERE
// where these know, else those that the engine finds for FROM and WHERE in a query of its own, without the vectors.

// nearestQuery is ORDER BY distance LIMIT n as a SELECT says it.
type nearestQuery struct {
	column  string
	metric  vec.Metric
	query   vector.Query
	rows    int64 // LIMIT and OFFSET
	offset  int64
	ties    bool // more follows in ORDER BY
	bounded bool // WHERE has an upper bound for the distance
}

// distances are the functions by which rows can be ranked, as the engine knows them.
var distances = map[string]vec.Metric{
	"<->": vec.MetricL2, "l2_distance": vec.MetricL2, "vector_l2_distance": vec.MetricL2, "halfvec_l2_distance": vec.MetricL2, "vector_l2_squared_distance": vec.MetricL2, "halfvec_l2_squared_distance": vec.MetricL2,
	"sparsevec_l2_distance": vec.MetricL2, "sparsevec_l2_squared_distance": vec.MetricL2,
	coltype.NegativeDot: vec.MetricDot, "vector_negative_inner_product": vec.MetricDot, "halfvec_negative_inner_product": vec.MetricDot, "sparsevec_negative_inner_product": vec.MetricDot,
	"<=>": vec.MetricCosine, "cosine_distance": vec.MetricCosine, "vector_cosine_distance": vec.MetricCosine, "halfvec_cosine_distance": vec.MetricCosine, "sparsevec_cosine_distance": vec.MetricCosine,
	"<+>": vec.MetricL1, "l1_distance": vec.MetricL1, "vector_l1_distance": vec.MetricL1, "halfvec_l1_distance": vec.MetricL1, "sparsevec_l1_distance": vec.MetricL1,
	"<~>": vec.MetricHamming, "hamming_distance": vec.MetricHamming, "<%>": vec.MetricJaccard, "jaccard_distance": vec.MetricJaccard,
}

// nearest gives an expression for FROM, or "" when the SELECT is not of these or no index can tell.
func (r *resolver) nearest(n node, s *source, sc *scope) (string, error) {
	q := r.q
	opts, err := q.hint()
	if err != nil || opts.Hint == search.NoIndex {
		return "", err
	}
	v, err := q.view(s.base, s.ref)
	if v == nil || err != nil || !slices.ContainsFunc(v.Indexes(), func(x *overlay.Index) bool { return overlay.OfVectors(x.Kind) }) {
		return "", err
	}
	nq, err := r.nearestOf(n, s, sc)
	if nq == nil || err != nil {
		return "", err
	}
	var filter predicate.Expr
	effort, err := q.effort()
	if err != nil {
		return "", err
	}
	exact, filtered, notNull := true, len(sc.sources) > 1, false
	p := &pusher{q: q, s: s, sc: sc}
	for _, c := range tree.Conjuncts(tree.Child(n, "where_clause")) {
		if isEffort(c, &effort) || c == nil {
			continue
		}
		if x := tree.List(c, "children"); tree.Str(c, "type") == "OPERATOR_IS_NOT_NULL" && len(x) == 1 {
			col, _ := x[0].(node)
			if f, ok := p.field(col); ok && f.Name == nq.column {
				notNull = true // has no distance
				continue
			}
		}
		e, ok := p.expr(c)
		if not, is := e.(predicate.Not); is {
			if x, is := not.X.(predicate.IsNull); is && x.Column == nq.column {
				notNull = true // has no distance
				continue
			}
		}
		if q.bounds(c, nq, p) {
			nq.bounded = true
			continue // of the nearest rows the engine drops those that are too far
		}
		filtered = true
		filter, exact = conjoin(filter, e), exact && ok
	}
	plan, err := q.plan(s)
	if err != nil || len(plan.Files) == 0 {
		return "", err
	}
	request := search.NearestRequest{Field: columnID(plan.Schema, nq.column), Metric: nq.metric, Query: nq.query, K: int(nq.rows), Ties: nq.ties, Effort: effort, Forced: opts.Hint == search.UseIndex, NotNull: notNull}
	if opts.Only != "" {
		if k := slices.IndexFunc(v.Indexes(), func(x *overlay.Index) bool { return strings.EqualFold(x.Name, opts.Only) }); k >= 0 {
			if !overlay.OfVectors(v.Indexes()[k].Kind) {
				return "", nil
			}
			request.Only, q.hintMet = v.Indexes()[k].Name, true
		}
	}
	if !search.CanRank(v, request) {
		return "", nil
	}
	how := ""
	if filtered {
		if len(sc.sources) == 1 && exact {
			bound, err := s.base.Bind(s.ref, filter)
			if err != nil {
				return "", err
			}
			sets, ok, err := search.FilterRows(q.ctx, plan, bound, v)
			if err != nil {
				return "", err
			}
			if ok {
				request.Allowed, how = sets, "rows of WHERE by index"
			}
		}
		if request.Allowed == nil {
			if request.Allowed, err = r.qualifying(n, s, sc, plan, nq.column); err != nil || request.Allowed == nil {
				return "", err
			}
			how = "rows of WHERE by a query of their own"
		}
	}
	found, ok, err := search.FindNearest(q.ctx, plan, v, request)
	if err != nil && errs.Is(err, errs.Invalid) {
		err, ok = nil, false // the engine tells where
	}
	if err != nil || !ok {
		return "", err
	}
	info := scanInfo{id: s.base.Ident(), plan: plan, access: found.Access}
	if filter != nil {
		info.filter = filter.String()
	}
	note := nq.note(s, found)
	if how != "" {
		allowed := int64(0)
		for _, a := range request.Allowed {
			allowed += a.Len()
		}
		note += fmt.Sprintf("; %d %s", allowed, how)
	}
	q.notes = append(q.notes, note)
	q.ranked = true
	if err := r.directly(n, s, sc, plan, nq, found.Access); err != nil {
		return "", err
	}
	if q.answer != nil {
		return emptyScan(plan.Schema) // of no use any more
	}
	return q.assemble(s.base, s.ref, info)
}

// bounds tells whether a condition is an upper bound for the distance by which rows are ranked.
func (q *statement) bounds(c node, nq *nearestQuery, p *pusher) bool {
	e, bound := tree.Child(c, "left"), tree.Child(c, "right")
	switch tree.Str(c, "type") {
	case "COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO":
	case "COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO":
		e, bound = bound, e
	default:
		return false
	}
	_, is := q.floatConstant(bound)
	return is && q.sameDistance(e, nq, p)
}

// note tells what an index did.
func (nq *nearestQuery) note(s *source, found *search.Nearest) string {
	note := fmt.Sprintf("vector %s %s.%s: index %s (%s), %d parts, %s, %d candidates, %d distances", nq.metric, s.id, nq.column, found.Index, found.Kind, found.Parts,
		found.Work.Strategy, found.Access.Rows, found.Work.Distances)
	if found.Work.Reranked > 0 {
		note += fmt.Sprintf(" of which %d in full", found.Work.Reranked)
	}
	return note
}

// within gives an expression for FROM where WHERE says that a distance is below a constant; "" when no index can tell.
func (r *resolver) within(n node, s *source, sc *scope) (string, error) {
	q := r.q
	opts, err := q.hint()
	if err != nil || opts.Hint == search.NoIndex {
		return "", err
	}
	v, err := q.view(s.base, s.ref)
	if v == nil || err != nil || !slices.ContainsFunc(v.Indexes(), func(x *overlay.Index) bool { return overlay.OfVectors(x.Kind) }) {
		return "", err
	}
	for _, c := range tree.Conjuncts(tree.Child(n, "where_clause")) {
		e, bound := tree.Child(c, "left"), tree.Child(c, "right")
		switch tree.Str(c, "type") {
		case "COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO":
		case "COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO":
			e, bound = bound, e
		default:
			continue
		}
		most, ok := q.floatConstant(bound)
		if !ok || strings.Contains(tree.Str(e, "function_name"), "squared") {
			continue
		}
		nq, err := r.distanceOf(e, s, sc)
		if err != nil {
			return "", err
		}
		if nq == nil {
			continue
		}
		plan, err := q.plan(s)
		if err != nil || len(plan.Files) == 0 {
			return "", err
		}
		request := search.NearestRequest{Field: columnID(plan.Schema, nq.column), Metric: nq.metric, Query: nq.query, Forced: opts.Hint == search.UseIndex}
		if opts.Only != "" {
			if k := slices.IndexFunc(v.Indexes(), func(x *overlay.Index) bool { return strings.EqualFold(x.Name, opts.Only) }); k >= 0 {
				request.Only = v.Indexes()[k].Name
			}
		}
		found, ok, err := search.FindWithin(q.ctx, plan, v, request, math.Nextafter(float64(most), math.Inf(1)))
		if err != nil && errs.Is(err, errs.Invalid) {
			continue // the engine tells where
		}
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		q.hintMet = q.hintMet || request.Only != ""
		info := scanInfo{id: s.base.Ident(), plan: plan, access: found.Access}
		if s.filter != nil {
			info.filter = s.filter.String()
		}
		q.notes = append(q.notes, nq.note(s, found)+fmt.Sprintf(", nearer than %v", most))
		q.ranked = true
		return q.assemble(s.base, s.ref, info)
	}
	return "", nil
}

func columnID(sc *arrow.Schema, name string) int {
	at := slices.IndexFunc(sc.Fields(), func(f arrow.Field) bool { return f.Name == name })
	if at < 0 {
		return -1
	}
	return datafile.FieldID(sc.Field(at))
}

func conjoin(a, b predicate.Expr) predicate.Expr {
	if a == nil {
		return b
	}
	return predicate.Conjoin(a, b)
}

// nearestOf reads ORDER BY distance LIMIT n of a SELECT that makes one row of each row.
func (r *resolver) nearestOf(n node, s *source, sc *scope) (*nearestQuery, error) {
	q := r.q
	if len(tree.List(n, "group_expressions")) > 0 || len(tree.List(n, "group_sets")) > 0 || tree.Str(n, "aggregate_handling") != "STANDARD_HANDLING" || n["having"] != nil || n["qualify"] != nil {
		return nil, nil
	}
	var order, limit node
	for _, m := range tree.List(n, "modifiers") {
		m, _ := m.(node)
		switch tree.Str(m, "type") {
		case "ORDER_MODIFIER":
			order = m
		case "LIMIT_MODIFIER":
			limit = m
		default:
			return nil, nil
		}
	}
	orders := tree.List(order, "orders")
	if len(orders) == 0 || tree.Child(limit, "limit") == nil {
		return nil, nil
	}
	first, _ := orders[0].(node)
	if tree.Str(first, "type") == "DESCENDING" || tree.Str(first, "null_order") == "NULLS FIRST" {
		return nil, nil
	}
	items := tree.List(n, "select_list")
	e := tree.Child(first, "expression")
	switch tree.Str(e, "class") {
	case "COLUMN_REF": // by its heading
		names := tree.List(e, "column_names")
		name, _ := names[len(names)-1].(string)
		at := slices.IndexFunc(items, func(x any) bool {
			item, _ := x.(node)
			return strings.EqualFold(tree.Str(item, "alias"), name)
		})
		if at < 0 || len(names) != 1 {
			return nil, nil
		}
		e, _ = items[at].(node)
	case "CONSTANT": // by its place
		k, ok := q.constant(e).(int64)
		if !ok || k < 1 || k > int64(len(items)) {
			return nil, nil
		}
		for _, item := range items[:k] {
			if x, _ := item.(node); tree.Str(x, "class") == "STAR" {
				return nil, nil
			}
		}
		e, _ = items[k-1].(node)
	}
	nq := &nearestQuery{ties: len(orders) > 1}
	for _, key := range []string{"limit", "offset"} {
		if e := tree.Child(limit, key); e != nil {
			k, ok := q.constant(e).(int64)
			if !ok || k < 0 || k > 1<<31 {
				return nil, nil
			}
			nq.rows += k
			if key == "offset" {
				nq.offset = k
			}
		}
	}
	if nq.rows == 0 {
		return nil, nil
	}
	for _, o := range orders[1:] {
		x, _ := o.(node)
		items = append(slices.Clip(items), tree.Child(x, "expression"))
	}
	for _, item := range items {
		if x, _ := item.(node); !q.rowByRow(x) {
			return nil, nil
		}
	}
	d, err := r.distanceOf(e, s, sc)
	if d == nil || err != nil {
		return nil, err
	}
	nq.column, nq.metric, nq.query = d.column, d.metric, d.query
	return nq, nil
}

// distanceOf reads a distance of a column of the table and a vector that is the same for every row.
func (r *resolver) distanceOf(e node, s *source, sc *scope) (*nearestQuery, error) {
	q := r.q
	metric, ok := distances[strings.ToLower(tree.Str(e, "function_name"))]
	args := tree.List(e, "children")
	if tree.Str(e, "class") != "FUNCTION" || !ok || len(args) != 2 || tree.Str(e, "schema") != "" || e["filter"] != nil || e["distinct"] == true {
		return nil, nil
	}
	nq := &nearestQuery{metric: metric}
	p := &pusher{q: q, s: s, sc: sc}
	at := 0
	var field arrow.Field
	for ; at < 2; at++ {
		col, _ := args[at].(node)
		if field, ok = p.field(col); ok {
			break
		}
	}
	form, holds := overlay.FormOf(field)
	if !ok || !holds || metric.OfBits() != (form == vector.Bits) {
		return nil, nil
	}
	nq.column = field.Name
	other, _ := args[1-at].(node)
	typ := tree.Str(other, "function_name")
	if nq.query, ok = q.queryConstant(form, other); !ok {
		query, of, err := r.vectorAside(e, 1-at, other, sc, form)
		if typ = of; query == nil || err != nil {
			return nil, err
		}
		nq.query = *query
	}
	half := typ == "halfvec" || typ == coltype.CastFunction("halfvec") || strings.HasPrefix(strings.ToLower(tree.Str(e, "function_name")), "halfvec_")
	d, _ := declared.Of(field)
	if d.N > 0 && d.N != nq.query.Dim() || half && d.Name != "halfvec" {
		return nil, nil // the engine tells; or floats become halves, which no index has
	}
	halve(field, &nq.query)
	return nq, nil
}

// halve rounds a query as the engine does for a column of halves.
func halve(column arrow.Field, q *vector.Query) {
	if d, _ := declared.Of(column); d.Name == "halfvec" {
		for i, v := range q.Floats {
			q.Floats[i] = vec.Half(v)
		}
	}
}

// queryConstant is the vector that an expression of constants is, in the form that a column has.
func (q *statement) queryConstant(form vector.Form, n node) (v vector.Query, ok bool) {
	if form == vector.Dense {
		v.Floats, ok = q.vectorConstant(n)
		return v, ok
	}
	switch tree.Str(n, "class") {
	case "CONSTANT", "PARAMETER":
		if s, is := q.constant(n).(string); is {
			v, err := vector.ParseQuery(form, s)
			return v, err == nil
		}
	case "CAST":
		return q.queryConstant(form, tree.Child(n, "child"))
	case "FUNCTION":
		name, args := strings.ToLower(tree.Str(n, "function_name")), tree.List(n, "children")
		if len(args) == 1 && (form == vector.Bits && name == coltype.BitsFunction || form == vector.Sparse && name == coltype.CastFunction("sparsevec")) {
			x, _ := args[0].(node)
			return q.queryConstant(form, x)
		}
	}
	return v, false
}

// vectorConstant is the vector that an expression of constants is.
func (q *statement) vectorConstant(n node) ([]float32, bool) {
	switch tree.Str(n, "class") {
	case "CONSTANT", "PARAMETER":
		s, ok := q.constant(n).(string)
		if !ok {
			return nil, false
		}
		v, err := pgvector.Vector.Parse(s, nil)
		return v, err == nil
	case "CAST":
		if !keepsFloats(tree.Child(n, "cast_type")) {
			return nil, false
		}
		return q.vectorConstant(tree.Child(n, "child"))
	case "FUNCTION":
		args := tree.List(n, "children")
		switch strings.ToLower(tree.Str(n, "function_name")) {
		case coltype.CastFunction("vector"), coltype.CastFunction("halfvec"), coltype.FloatsFunction:
			if len(args) == 0 || len(args) > 2 {
				return nil, false
			}
			in, _ := args[0].(node)
			v, ok := q.vectorConstant(in)
			if ok && len(args) == 2 {
				dim, _ := args[1].(node)
				n, is := q.constant(dim).(int64)
				ok = is && int(n) == len(v)
			}
			if ok && strings.HasSuffix(tree.Str(n, "function_name"), "halfvec") {
				for i := range v {
					v[i] = vec.Half(v[i])
				}
			}
			return v, ok
		case "list_value", "array_value":
			var v []float32
			for _, a := range args {
				x, _ := a.(node)
				f, ok := q.floatConstant(x)
				if !ok {
					return nil, false
				}
				v = append(v, f)
			}
			return v, len(v) > 0
		}
	}
	return nil, false
}

// keepsFloats tells whether a cast to a type leaves the elements of a vector as they are.
func keepsFloats(typ node) bool {
	info := tree.Child(typ, "type_info")
	switch tree.Str(typ, "id") {
	case "VARCHAR":
		return true
	case "LIST", "ARRAY":
		of := tree.Str(tree.Child(info, "child_type"), "id")
		return of == "FLOAT" || of == "DOUBLE"
	case "UNBOUND": // what a cast to halfvec rounds, the function around it rounds too
		name := strings.ToLower(tree.Str(info, "name"))
		return name == "vector" || name == "halfvec"
	}
	return false
}

// floatConstant is the number that an expression of constants is, as an element of a vector.
func (q *statement) floatConstant(n node) (float32, bool) {
	if args := tree.List(n, "children"); tree.Str(n, "class") == "FUNCTION" && tree.Str(n, "function_name") == "-" && len(args) == 1 {
		x, _ := args[0].(node)
		f, ok := q.floatConstant(x)
		return -f, ok
	}
	switch v := q.constant(n).(type) {
	case int64:
		return float32(v), true
	case float64:
		return float32(v), true
	case predicate.Typed:
		f, err := strconv.ParseFloat(v.Text, 32)
		return float32(f), err == nil && v.Type == "decimal"
	}
	return 0, false
}

// rowByRow tells whether an expression of a select list makes one value of each row, whatever other rows are.
func (q *statement) rowByRow(n node) bool {
	switch tree.Str(n, "class") {
	case "SUBQUERY", "CONSTANT", "PARAMETER", "COLUMN_REF":
		return true
	case "STAR":
		return rowByRow(n)
	case "FUNCTION":
		if op, _ := n["is_operator"].(bool); !op && !q.scalar(tree.Str(n, "function_name")) {
			return false
		}
	case "CAST", "OPERATOR", "COMPARISON", "CONJUNCTION", "BETWEEN", "CASE":
	default:
		return false
	}
	every := true
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case node:
			if _, is := v["class"]; is {
				every = every && q.rowByRow(v)
				return
			}
			for _, x := range v {
				walk(x)
			}
		}
	}
	for key, v := range n {
		if key != "cast_type" {
			walk(v)
		}
	}
	return every
}

// A stability tells what a call of a function has the same value for, when its arguments are the same.
type stability uint8

const (
	ofEachCall stability = iota // for nothing
	ofQuery                     // in one query
	ofAll
)

// stabilityOf is that of a function that makes one value of each row; false for other functions.
func (q *statement) stabilityOf(name string) (stability, bool) {
	q.scalar(name)
	q.s.env.mu.Lock()
	defer q.s.env.mu.Unlock()
	s, known := q.s.env.scalars[strings.ToLower(name)]
	return s, known
}

// scalar tells whether a function of the engine is known to make one value of each row.
func (q *statement) scalar(name string) bool {
	e := q.s.env
	e.mu.Lock()
	known := e.scalars
	e.mu.Unlock()
	if known == nil {
		rows, err := e.engine.Query(q.ctx, `SELECT function_name, CAST(min(CASE stability WHEN 'CONSISTENT' THEN 2 WHEN 'CONSISTENT_WITHIN_QUERY' THEN 1 ELSE 0 END) FILTER (function_type = 'scalar') AS BIGINT) FROM duckdb_functions()
			GROUP BY 1 HAVING bool_or(function_type = 'scalar') AND bool_and(function_type IN ('scalar', 'table', 'pragma'))`)
		if err != nil {
			return false
		}
		defer rows.Close()
		known = map[string]stability{"bm25": ofAll, "match": ofAll}
		for rows.Next() {
			names, ok := rows.Record().Column(0).(*array.String)
			steady, isNumber := rows.Record().Column(1).(*array.Int64)
			if !ok || !isNumber {
				return false
			}
			for i := range names.Len() {
				known[strings.Clone(names.Value(i))] = stability(steady.Value(i))
			}
		}
		if rows.Err() != nil {
			return false
		}
		e.mu.Lock()
		e.scalars = known
		e.mu.Unlock()
	}
	_, ok := known[strings.ToLower(name)]
	return ok
}

func registerEffort(db *engine.DB) error {
	return db.RegisterScalar(engine.Scalar{Name: macro.EffortFunction, Args: []engine.Type{engine.Text}, Returns: engine.Bool,
		Row: func(i int, _ []engine.Column, out *engine.Output) error { out.Bool(i, true); return nil }})
}

// isEffort reads a condition that is none but says how much a search does.
func isEffort(n node, e *search.Effort) bool {
	args := tree.List(n, "children")
	if tree.Str(n, "class") != "FUNCTION" || tree.Str(n, "function_name") != macro.EffortFunction || len(args) != 1 {
		return false
	}
	arg, _ := args[0].(node)
	q := &statement{}
	s, _ := q.constant(arg).(string)
	for _, part := range strings.Fields(s) {
		name, value, _ := strings.Cut(part, "=")
		e.Set(name, value)
	}
	return true
}

// effort is what the settings and a hint say about searches.
func (q *statement) effort() (e search.Effort, err error) {
	for setting, name := range map[string]string{"hnsw.ef_search": "ef_search", "ivfflat.probes": "probes", "vector.rerank": "rerank", "vector.exact": "exact"} {
		v, err := q.s.setting(setting)
		if err != nil {
			return e, err
		}
		if v != "" {
			e.Set(name, v)
		}
	}
	if _, err := q.hint(); err != nil {
		return e, err
	}
	for name, value := range q.hintedEffort {
		e.Set(name, value)
	}
	return e, nil
}

// nearestHint reads the parts of a hint that say how much a search does.
func (q *statement) nearestHint(at int, name, inside string) (bool, error) {
	name = strings.ToLower(name)
	set := func(name, value string) error {
		if err := new(search.Effort).Set(name, value); err != nil {
			return errs.Wrap(errs.Invalid, "sql.hint", lex.At(q.text, at, err.Error()), errs.Hint("%s", errs.HintOf(err)))
		}
		if q.hintedEffort == nil {
			q.hintedEffort = map[string]string{}
		}
		q.hintedEffort[name] = value
		return nil
	}
	switch {
	case name == "exact" && inside == "":
		return true, set("exact", "true")
	case name == "index_hint":
		for _, part := range strings.Split(inside, ",") {
			k, v, ok := strings.Cut(part, "=")
			if !ok {
				return true, lex.Errorf(q.text, at, "INDEX_HINT takes name = value, not %q", strings.TrimSpace(part))
			}
			if err := set(strings.ToLower(strings.TrimSpace(k)), strings.ToLower(strings.TrimSpace(v))); err != nil {
				return true, err
			}
		}
		return true, nil
	case slices.Contains(search.EffortNames, name):
		return true, set(name, strings.TrimSpace(inside))
	}
	return false, nil
}
