package pgvector_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/testenv"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// The forms of expressions that need no SQL engine.
var (
	literal = regexp.MustCompile(`^'([^']*)'::T(?:\((\d+)\))?$`)
	call    = regexp.MustCompile(`^(\w+)\('([^']*)'::T(?:,'([^']*)'::T)?(?:,(-?\d+),(-?\d+))?\)$`)
	infix   = regexp.MustCompile(`^'([^']*)'::T (\S+) '([^']*)'(?:::T)?$`)
)

// TestConformance evaluates the recorded cases of pgvector that are one literal, one call or one operator on values of
// vector or of halfvec.
func TestConformance(t *testing.T) {
	f, err := os.Open(testenv.Shared(t, "conformance", "pgvector", "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ran := 0
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var c struct {
			ID, Type, Kind, SQL, SQLState, Message string
			Value                                  *string
			Needs                                  []string
		}
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		d := map[string]*pgvector.Dense{"vector": pgvector.Vector, "halfvec": pgvector.Halfvec}[c.Type]
		if d == nil || c.Kind != "scalar" || c.SQLState == "42883" || c.SQLState == "42725" {
			continue
		}
		got, err, ok := evaluate(d, strings.ReplaceAll(strings.TrimPrefix(c.SQL, "SELECT "), "::"+c.Type, "::T"))
		if !ok {
			continue
		}
		ran++
		switch {
		case c.SQLState != "":
			var e *pgvector.Error
			if !errors.As(err, &e) || e.Code != c.SQLState || err.Error() != c.Message {
				t.Errorf("%s %s: got %v, %v, want %s %s", c.ID, c.SQL, got, err, c.SQLState, c.Message)
			}
		case err != nil || c.Value == nil || !agree(got, *c.Value):
			t.Errorf("%s %s: got %v, %v, want %v", c.ID, c.SQL, got, err, *c.Value)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	if ran < 350 {
		t.Errorf("only %d cases could be run", ran)
	}
	t.Logf("%d cases", ran)
}

// agree compares text, and numbers within one part in a million.
func agree(got, want string) bool {
	g, w := strings.Split(strings.Trim(got, "[]"), ","), strings.Split(strings.Trim(want, "[]"), ",")
	if len(g) != len(w) {
		return false
	}
	for i := range g {
		if g[i] == w[i] {
			continue
		}
		x, err1 := strconv.ParseFloat(g[i], 64)
		y, err2 := strconv.ParseFloat(w[i], 64)
		if err1 != nil || err2 != nil || math.IsNaN(x) != math.IsNaN(y) || x != y && !(math.Abs(x-y) <= 1e-6*max(1, math.Abs(y))) {
			return false
		}
	}
	return true
}

func evaluate(d *pgvector.Dense, expr string) (got string, err error, ok bool) {
	if m := literal.FindStringSubmatch(expr); m != nil {
		if m[2] != "" {
			n, err := strconv.ParseInt(m[2], 10, 64)
			if err == nil {
				err = pgvector.CheckModifier(d.Name(), n)
			}
			if err != nil {
				return "", err, true
			}
			v, err := d.Parse(m[1], nil)
			if err == nil {
				err = pgvector.CheckDim(v, int(n))
			}
			return pgvector.Format(v), err, true
		}
		v, err := d.Parse(m[1], nil)
		return pgvector.Format(v), err, true
	}
	var name string
	var texts []string
	var numbers [2]int64
	if m := infix.FindStringSubmatch(expr); m != nil {
		name, texts = m[2], []string{m[1], m[3]}
	} else if m := call.FindStringSubmatch(expr); m != nil {
		name, texts = m[1], []string{m[2]}
		if m[3] != "" {
			texts = append(texts, m[3])
		}
		for i := range numbers {
			numbers[i], _ = strconv.ParseInt(m[4+i], 10, 64)
		}
	} else {
		return "", nil, false
	}
	var v [2][]float32
	for i, s := range texts {
		if v[i], err = d.Parse(s, nil); err != nil {
			return "", err, true
		}
	}
	distance := func(f func(a, b []float32) float64) (string, error, bool) {
		if err := d.Same(v[0], v[1]); err != nil {
			return "", err, true
		}
		return strconv.FormatFloat(f(v[0], v[1]), 'g', -1, 64), nil, true
	}
	vector := func(v []float32, err error) (string, error, bool) { return pgvector.Format(v), err, true }
	compare := func(holds func(c int) bool) (string, error, bool) {
		return strconv.FormatBool(holds(pgvector.Compare(v[0], v[1]))), nil, true
	}
	switch name {
	case "<->", "l2_distance":
		return distance(vec.L2)
	case "<#>":
		return distance(vec.NegativeDot)
	case "inner_product":
		return distance(func(a, b []float32) float64 { return float64(vec.Dot(a, b)) })
	case "<=>", "cosine_distance":
		return distance(vec.Cosine)
	case "<+>", "l1_distance":
		return distance(vec.L1)
	case "vector_spherical_distance":
		return distance(vec.Spherical)
	case "+":
		return vector(d.Add(v[0], v[1], nil))
	case "-":
		return vector(d.Sub(v[0], v[1], nil))
	case "*":
		return vector(d.Mul(v[0], v[1], nil))
	case "||":
		return vector(d.Concat(v[0], v[1], nil))
	case "<":
		return compare(func(c int) bool { return c < 0 })
	case "<=":
		return compare(func(c int) bool { return c <= 0 })
	case "=":
		return compare(func(c int) bool { return c == 0 })
	case "<>", "!=":
		return compare(func(c int) bool { return c != 0 })
	case ">=":
		return compare(func(c int) bool { return c >= 0 })
	case ">":
		return compare(func(c int) bool { return c > 0 })
	case "vector_cmp", "halfvec_cmp":
		return strconv.Itoa(pgvector.Compare(v[0], v[1])), nil, true
	case "vector_dims":
		return strconv.Itoa(len(v[0])), nil, true
	case "vector_norm", "l2_norm":
		return strconv.FormatFloat(vec.Norm(v[0]), 'g', -1, 64), nil, true
	case "l2_normalize":
		return vector(d.Normalize(v[0], nil))
	case "binary_quantize":
		b := pgvector.QuantizeBits(v[0], nil)
		var text strings.Builder
		for i := range v[0] {
			text.WriteByte('0' + b[i/8]>>(7-i%8)&1)
		}
		return text.String(), nil, true
	case "subvector":
		return vector(d.Subvector(v[0], int32(numbers[0]), int32(numbers[1])))
	}
	return "", nil, false
}
