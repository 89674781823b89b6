package primitive

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// ScoreMode says how the values of several functions become one.
type ScoreMode string

// The score modes. The zero value is ScoreMultiply.
const (
	ScoreMultiply ScoreMode = "multiply"
	ScoreSum      ScoreMode = "sum"
	ScoreAvg      ScoreMode = "avg" // by their weights
	ScoreFirst    ScoreMode = "first"
	ScoreMax      ScoreMode = "max"
	ScoreMin      ScoreMode = "min"
)

// BoostMode says how the score of the query and the value of the functions become one.
type BoostMode string

// The boost modes. The zero value is BoostMultiply.
const (
	BoostMultiply BoostMode = "multiply"
	BoostReplace  BoostMode = "replace"
	BoostSum      BoostMode = "sum"
	BoostAvg      BoostMode = "avg"
	BoostMax      BoostMode = "max"
	BoostMin      BoostMode = "min"
)

// ScoreModes and BoostModes list the modes.
var (
	ScoreModes = []ScoreMode{ScoreMultiply, ScoreSum, ScoreAvg, ScoreFirst, ScoreMax, ScoreMin}
	BoostModes = []BoostMode{BoostMultiply, BoostReplace, BoostSum, BoostAvg, BoostMax, BoostMin}
)

// Check refuses a mode that is none; "" is the default.
func (m ScoreMode) Check() error {
	if m != "" && !slices.Contains(ScoreModes, m) {
		return errs.New(errs.Invalid, "query.score_mode", "there is no such score_mode", errs.On(string(m)), errs.Hint("use one of %s", join(ScoreModes)))
	}
	return nil
}

// Check refuses a mode that is none; "" is the default.
func (m BoostMode) Check() error {
	if m != "" && !slices.Contains(BoostModes, m) {
		return errs.New(errs.Invalid, "query.boost_mode", "there is no such boost_mode", errs.On(string(m)), errs.Hint("use one of %s", join(BoostModes)))
	}
	return nil
}

func join[S ~string](all []S) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// Combine gives the score of a row from that of the query and the value of the functions.
func (m BoostMode) Combine(score float32, value float64, maxBoost float32) float32 {
	q, f := float64(score), min(value, float64(maxBoost))
	switch m {
	case BoostReplace:
		return float32(f)
	case BoostSum:
		return float32(q + f)
	case BoostAvg:
		return float32((f + q) / 2)
	case BoostMax:
		return float32(max(q, f))
	case BoostMin:
		return float32(min(q, f))
	}
	return float32(q * f)
}

// Number gives the number of a field in a row; ok is false where it has none.
type Number func(field string, row int64) (value float64, ok bool)

// ScoreFunction gives a row a value.
type ScoreFunction interface {
	// Value is that of a row, numbered over all sources.
	Value(row int64, number Number) (float64, error)

	// Check refuses parameters that mean nothing.
	Check() error

	// Describe names the function and its parameters: two with the same text are the same function.
	Describe() string
}

// FieldValue is the value of a number: Modifier(Factor · number).
type FieldValue struct {
	Field    string
	Factor   float32 // 0: 1
	Modifier Modifier
	Missing  *float64 // for rows without the number; nil: they are an error
}

// Modifier is a function of one number.
type Modifier string

// Modifiers are those of Elasticsearch's field_value_factor, with their meaning. The zero value is none.
var Modifiers = map[Modifier]func(x float64) float64{
	"none":       func(x float64) float64 { return x },
	"log":        math.Log10,
	"log1p":      func(x float64) float64 { return math.Log10(x + 1) },
	"log2p":      func(x float64) float64 { return math.Log10(x + 2) },
	"ln":         math.Log,
	"ln1p":       math.Log1p,
	"ln2p":       func(x float64) float64 { return math.Log1p(x + 1) },
	"square":     func(x float64) float64 { return x * x },
	"sqrt":       math.Sqrt,
	"reciprocal": func(x float64) float64 { return 1 / x },
}

// Check refuses an unknown modifier.
func (f FieldValue) Check() error {
	if _, ok := Modifiers[f.Modifier]; !ok && f.Modifier != "" {
		names := make([]Modifier, 0, len(Modifiers))
		for m := range Modifiers {
			names = append(names, m)
		}
		slices.Sort(names)
		return errs.New(errs.Invalid, "query.field_value_factor", "there is no such modifier", errs.On(string(f.Modifier)), errs.Hint("use one of %s", join(names)))
	}
	if f.Field == "" {
		return errs.New(errs.Invalid, "query.field_value_factor", "field_value_factor needs a field")
	}
	return nil
}

// Describe names it.
func (f FieldValue) Describe() string {
	s := fmt.Sprintf("field_value_factor(%s, factor=%v, modifier=%s", f.Field, f.factor(), f.Modifier)
	if f.Missing != nil {
		s += fmt.Sprintf(", missing=%v", *f.Missing)
	}
	return s + ")"
}

func (f FieldValue) factor() float32 {
	if f.Factor == 0 {
		return 1
	}
	return f.Factor
}

// Value applies the modifier.
func (f FieldValue) Value(row int64, number Number) (float64, error) {
	x, ok := number(f.Field, row)
	if !ok {
		if f.Missing == nil {
			return 0, errs.New(errs.Invalid, "query.field_value_factor", "a row has no value", errs.On(f.Field), errs.Hint("give a value for missing"))
		}
		x = *f.Missing
	}
	v := x * float64(f.factor())
	if m := Modifiers[f.Modifier]; m != nil {
		v = m(v)
	}
	if v < 0 || math.IsNaN(v) {
		return 0, errs.New(errs.Invalid, "query.field_value_factor", fmt.Sprintf("the value of a row is %v: a score must be a number that is not negative", v), errs.On(f.Field),
			errs.Hint("use a modifier such as log1p or sqrt on numbers that it is defined for"))
	}
	return v, nil
}

// DecayKind is the shape of a Decay.
type DecayKind string

// The shapes.
const (
	Gauss  DecayKind = "gauss"
	Exp    DecayKind = "exp"
	Linear DecayKind = "linear"
)

// Decay falls with the distance of a number from Origin: 1 within Offset, Decay at Offset + Scale. A row without the number
// has the value 1.
type Decay struct {
	Kind                         DecayKind
	Field                        string
	Origin, Scale, Offset, Decay float64 // Decay 0: 0.5
}

func (d Decay) decay() float64 {
	if d.Decay == 0 {
		return 0.5
	}
	return d.Decay
}

// Check refuses parameters that are no decay.
func (d Decay) Check() error {
	var what string
	switch {
	case d.Kind != Gauss && d.Kind != Exp && d.Kind != Linear:
		what = "a decay is gauss, exp or linear, not " + string(d.Kind)
	case d.Field == "":
		what = "a decay needs a field"
	case !(d.Scale > 0) || math.IsInf(d.Scale, 0):
		what = "scale must be greater than 0"
	case !(d.Offset >= 0) || math.IsInf(d.Offset, 0):
		what = "offset must not be negative"
	case !(d.decay() > 0 && d.decay() < 1):
		what = "decay must lie between 0 and 1"
	case math.IsNaN(d.Origin) || math.IsInf(d.Origin, 0):
		what = "origin must be a number"
	default:
		return nil
	}
	return errs.New(errs.Invalid, "query.decay", what)
}

// Describe names it.
func (d Decay) Describe() string {
	return fmt.Sprintf("%s(%s, origin=%v, scale=%v, offset=%v, decay=%v)", d.Kind, d.Field, d.Origin, d.Scale, d.Offset, d.decay())
}

// Value is the decay at the row's distance.
func (d Decay) Value(row int64, number Number) (float64, error) {
	x, ok := number(d.Field, row)
	distance := 0.0
	if ok {
		distance = max(0, math.Abs(x-d.Origin)-d.Offset)
	}
	switch d.Kind {
	case Gauss:
		return math.Exp(0.5 * distance * distance / (0.5 * d.Scale * d.Scale / math.Log(d.decay()))), nil
	case Exp:
		return math.Exp(math.Log(d.decay()) / d.Scale * distance), nil
	}
	s := d.Scale / (1 - d.decay())
	return max(0, (s-distance)/s), nil
}

// Random is a value from 0 to less than 1 that depends on the seed and a number of the row; without a field, on its place.
type Random struct {
	Seed  int64
	Field string
}

// Check has nothing to refuse.
func (Random) Check() error { return nil }

// Describe names it.
func (r Random) Describe() string { return fmt.Sprintf("random(seed=%d, field=%s)", r.Seed, r.Field) }

// Value mixes seed and number (the finalizer of SplitMix64) to the 24 bits that a float32 can hold.
func (r Random) Value(row int64, number Number) (float64, error) {
	x := uint64(row)
	if r.Field != "" {
		v, ok := number(r.Field, row)
		if !ok {
			return 0, errs.New(errs.Invalid, "query.random_score", "a row has no value", errs.On(r.Field))
		}
		x = math.Float64bits(v)
	}
	x = mix(x ^ mix(uint64(r.Seed)))
	return float64(float32(x>>40) / (1 << 24)), nil
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
