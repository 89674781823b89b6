package analysis

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// maxFilters is the largest number of filters in a chain.
const maxFilters = 32

// maxFingerprint is the longest fingerprint that is written out, in bytes; longer ones are hashed.
const maxFingerprint = 512

// Define makes an analyzer of the inline form (see Parse). Its name is its canonical definition.
//
// Parts and parameters that do not exist are errs.Unsupported and name what there is; values out of range, patterns and
// n-grams that would explode, and synonyms that the parts before tear to pieces are errs.Invalid.
func Define(text string) (*Analyzer, error) {
	spec, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return spec.Analyzer()
}

// Analyzer makes the analyzer that a spec describes, as Define does.
func (s Spec) Analyzer() (*Analyzer, error) {
	a := &Analyzer{kind: composed}
	var canonical Spec
	var fingerprint strings.Builder
	growth := 1
	bind := func(kinds []component, what string, c Component) error {
		name := strings.ToLower(c.Name)
		i := slices.IndexFunc(kinds, func(k component) bool { return k.name == name })
		if i < 0 {
			return errs.New(errs.Unsupported, opDefine, "there is no such "+what, errs.On(what+" "+c.Name), errs.Hint("the %ss are %s", what, strings.Join(componentNames(kinds), ", ")))
		}
		args, err := bindArguments(&kinds[i], what, c.Args)
		if err != nil {
			return err
		}
		before := slices.Clone(a.stages)
		args.before = func() source { return makeChain(before) }
		st := kinds[i].bind(args)
		if args.err != nil {
			return args.err
		}
		if growth *= max(st.growth, 1); growth > maxGrowth {
			return errs.With(errs.Newf(errs.Invalid, opDefine, "the tokenizer and the filters up to here could make a text more than %d times as long", maxGrowth),
				errs.On(what+" "+kinds[i].name), errs.Hint("take fewer sizes of n-grams or shingles"))
		}
		a.stages = append(a.stages, st)
		plain := args.canonical()
		if what == "tokenizer" {
			canonical.Tokenizer = plain
		} else {
			canonical.Filters = append(canonical.Filters, plain)
			fingerprint.WriteByte('|')
		}
		plain.Name = fmt.Sprintf("%s/%d", plain.Name, kinds[i].revision)
		plain.write(&fingerprint)
		return nil
	}
	if err := bind(tokenizers, "tokenizer", s.Tokenizer); err != nil {
		return nil, err
	}
	if len(s.Filters) > maxFilters {
		return nil, errs.Newf(errs.Invalid, opDefine, "a chain has %d filters at most, not %d", maxFilters, len(s.Filters))
	}
	for _, f := range s.Filters {
		if err := bind(filters, "filter", f); err != nil {
			return nil, err
		}
	}
	a.name = canonical.String()
	a.definition = a.name
	if a.fingerprint = "chain:" + fingerprint.String(); len(a.fingerprint) > maxFingerprint {
		a.fingerprint = fmt.Sprintf("chain:sha256:%x", sha256.Sum256([]byte(fingerprint.String())))
	}
	return a, nil
}

func componentNames(kinds []component) []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = k.name
	}
	return out
}

// Part describes a tokenizer or a filter for a reader.
type Part struct {
	Name, Doc string
	// Parameters are written as name=default; a list, and what must be given, has no default.
	Parameters []string
}

// Tokenizers describes the tokenizers, in the order in which the guide has them.
func Tokenizers() []Part { return parts(tokenizers) }

// Filters describes the filters, by name.
func Filters() []Part { return parts(filters) }

func parts(kinds []component) []Part {
	out := make([]Part, len(kinds))
	for i, k := range kinds {
		out[i] = Part{Name: k.name, Doc: k.doc}
		for _, p := range k.params {
			s := p.name
			if p.fallback != "" {
				s += "=" + scalarText(p.fallback)
			}
			out[i].Parameters = append(out[i].Parameters, s)
		}
	}
	return out
}

func scalarText(v string) string {
	var b strings.Builder
	writeScalar(&b, v)
	return b.String()
}
