// Package textcall answers: what does a call of a text function ask of a text?
//
// bm25(column, query, option => …), match(…) and highlight(…) share their options, of which syntax says what the query is: words, a
// text in Lucene's syntax, a phrase, a pattern. A Form is a call that was understood. Where it is more than words it has a Plan, for
// statistics of the column and for indexes; with those it is ready, and the engine's functions, which are here too, ask it of one
// batch of texts after the other.
package textcall

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// The syntaxes of a query.
const (
	Words        = "words"         // the default: a text whose words are looked for
	QueryString  = "query_string"  // Lucene's syntax
	Simple       = "simple"        // words and signs
	Phrase       = "phrase"        // words one behind the other
	PhrasePrefix = "phrase_prefix" // a phrase whose last word is a beginning
	BoolPrefix   = "bool_prefix"   // words, of which the last is a beginning
	Prefix       = "prefix"        // the beginning of a term
	Wildcard     = "wildcard"      // a form of terms, with * and ?
	Regexp       = "regexp"        // a regular expression for whole terms
	Fuzzy        = "fuzzy"         // a term, and those near to it
	Term         = "term"          // a term as it is
)

// Syntaxes lists the syntaxes.
var Syntaxes = []string{Words, QueryString, Simple, Phrase, PhrasePrefix, BoolPrefix, Prefix, Wildcard, Regexp, Fuzzy, Term}

// QueryOptions are the names of the options that say what a query is; all functions take them.
var QueryOptions = []string{"analyzer", "syntax", "operator", "default_operator", "minimum_should_match", "slop", "fuzziness"}

// ScoreOptions are the options of bm25 and match beside those.
var ScoreOptions = []string{"k1", "b"}

// highlightOptions are the options of highlight beside QueryOptions.
var highlightOptions = []string{"pre", "post", "fragments", "size"}

// applies says for which syntaxes an option of a query has a meaning; those that are not here have one for all.
var applies = map[string][]string{
	"operator":             {Words, QueryString, Simple, BoolPrefix},
	"default_operator":     {QueryString, Simple},
	"minimum_should_match": {Words, QueryString, Simple, BoolPrefix},
	"slop":                 {QueryString, Phrase, PhrasePrefix},
	"fuzziness":            {Words, QueryString, Simple, BoolPrefix, Fuzzy},
}

const op = "sql.text"

// Options are those of a call. The zero value is not ready: Params and Analyzer hold the defaults.
type Options struct {
	Analyzer           string // a name, or an inline definition
	Params             similarity.Params
	Syntax             string // "": Words
	Operator           string // "or" (the default) or "and"
	MinimumShouldMatch string // see bm25.Options
	Slop               int    // of phrases
	Fuzziness          string // AUTO, AUTO:low,high, 0, 1 or 2; "": none, and AUTO where a query has a ~

	Pre, Post       string // around a marked word: <em> and </em>
	Fragments, Size int    // how many, and of about how many characters; 0: 5 and 100

	given []string
}

// Set sets an option of a function. The value is a string, a float64 or, where it was no constant, nil.
func (o *Options) Set(function, name string, value any) error {
	name = strings.ToLower(name)
	known := append(slices.Clone(QueryOptions), ScoreOptions...)
	if function == "highlight" {
		known = append(slices.Clone(QueryOptions), highlightOptions...)
	}
	if !slices.Contains(known, name) {
		return errs.Newf(errs.Invalid, op, "%s has no option %q", function, name)
	}
	if slices.Contains(o.given, name) || name == "operator" && slices.Contains(o.given, "default_operator") || name == "default_operator" && slices.Contains(o.given, "operator") {
		return errs.Newf(errs.Invalid, op, "the option %s of %s is given twice", name, function)
	}
	o.given = append(o.given, name)
	text, isText := value.(string)
	number, isNumber := value.(float64)
	count, isCount := int(number), isNumber && number == math.Trunc(number) && math.Abs(number) <= math.MaxInt32
	if !isText && isCount { // "2" may be written 2
		text = strconv.Itoa(count)
	}
	ok := isText
	switch name {
	case "analyzer":
		o.Analyzer = text
	case "syntax":
		if o.Syntax = strings.ToLower(text); ok && !slices.Contains(Syntaxes, o.Syntax) {
			hint := "use one of " + strings.Join(Syntaxes, ", ")
			if near := errs.Nearest(o.Syntax, Syntaxes, 2); near != "" {
				hint = "did you mean " + near + "?"
			}
			return errs.New(errs.Invalid, op, fmt.Sprintf("there is no syntax %q", text), errs.Hint("%s", hint))
		}
	case "operator", "default_operator":
		o.Operator = text
	case "minimum_should_match":
		o.MinimumShouldMatch, ok = text, isText || isCount
	case "fuzziness":
		o.Fuzziness, ok = text, isText || isCount
	case "slop":
		o.Slop, ok = count, isCount && count >= 0
	case "k1":
		o.Params.K1, ok = number, isNumber
	case "b":
		o.Params.B, ok = number, isNumber
	case "pre":
		o.Pre = text
	case "post":
		o.Post = text
	case "fragments":
		o.Fragments, ok = count, isCount && count > 0
	case "size":
		o.Size, ok = count, isCount && count > 0
	}
	if !ok {
		return errs.Newf(errs.Invalid, op, "the option %s of %s does not take this value", name, function)
	}
	return nil
}

// check refuses options that mean nothing for the syntax.
func (o *Options) check() error {
	if o.Syntax == "" {
		o.Syntax = Words
	}
	for _, name := range o.given {
		if list := applies[name]; list != nil && !slices.Contains(list, o.Syntax) {
			return errs.New(errs.Invalid, op, fmt.Sprintf("the option %s has no meaning for the syntax %s", name, o.Syntax), errs.Hint("it is for %s", strings.Join(list, ", ")))
		}
	}
	return nil
}
