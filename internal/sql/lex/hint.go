package lex

import (
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// Hint is what the comments that begin with /*+ say, one behind the other, without spaces around them, and where the first
// one begins; "" when there is none. tokens are those of the text: a comment stands between two of them.
func Hint(text string, tokens []Token) (words string, at int) {
	from := 0
	var all []string
	for i := 0; i <= len(tokens); i++ {
		to := len(text)
		if i < len(tokens) {
			to = tokens[i].Start
		}
		for _, h := range hints(text[from:to]) {
			if all == nil {
				at = from + h[0]
			}
			all = append(all, strings.TrimSpace(text[from+h[0]+3:from+h[1]-2]))
		}
		if i < len(tokens) {
			from = tokens[i].End
		}
	}
	return strings.Join(all, " "), at
}

// hints are the places of the comments that begin with /*+ between two words.
func hints(gap string) (out [][2]int) {
	for k := 0; k < len(gap); {
		switch {
		case strings.HasPrefix(gap[k:], "/*"):
			n := comment(gap[k:])
			if n <= 0 {
				return out
			}
			if strings.HasPrefix(gap[k:], "/*+") {
				out = append(out, [2]int{k, k + n})
			}
			k += n
		case strings.HasPrefix(gap[k:], "--"):
			k += line(gap[k:])
		default:
			k++
		}
	}
	return out
}

// HintWord is a word of a hint, with what is in its brackets.
type HintWord struct{ Name, Inside string }

// SplitHint reads the words of a hint: name or name(…), with blanks or commas between.
func SplitHint(words string) (out []HintWord, err error) {
	for words = strings.Trim(words, " \t\r\n,"); words != ""; words = strings.Trim(words, " \t\r\n,") {
		end := strings.IndexAny(words, " \t\r\n,(")
		if end < 0 {
			end = len(words)
		}
		h := HintWord{Name: strings.ToLower(words[:end])}
		words = words[end:]
		if rest := strings.TrimLeft(words, " \t\r\n"); strings.HasPrefix(rest, "(") {
			close := strings.IndexByte(rest, ')')
			if close < 0 {
				return nil, errs.New(errs.Invalid, "sql.hint", "a bracket of the hint is never closed")
			}
			h.Inside, words = strings.TrimSpace(rest[1:close]), rest[close+1:]
		}
		out = append(out, h)
	}
	return out, nil
}
