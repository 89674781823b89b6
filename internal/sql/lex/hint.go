package lex

import "strings"

// Hint is what the first comment that begins with /*+ says, without spaces around it, and where it begins; "" when there is
// none. tokens are those of the text: a comment stands between two of them.
func Hint(text string, tokens []Token) (words string, at int) {
	from := 0
	for i := 0; i <= len(tokens); i++ {
		to := len(text)
		if i < len(tokens) {
			to = tokens[i].Start
		}
		gap := text[from:to]
		for k := 0; k < len(gap); {
			switch {
			case strings.HasPrefix(gap[k:], "/*"):
				n := comment(gap[k:])
				if n <= 0 {
					return "", 0
				}
				if strings.HasPrefix(gap[k:], "/*+") {
					return strings.TrimSpace(gap[k+3 : k+n-2]), from + k
				}
				k += n
			case strings.HasPrefix(gap[k:], "--"):
				k += line(gap[k:])
			default:
				k++
			}
		}
		if i < len(tokens) {
			from = tokens[i].End
		}
	}
	return "", 0
}
