package lex

import "strings"

// Travel turns FOR VERSION AS OF x and FOR TIMESTAMP AS OF x into AT (…).
func Travel(text string, tokens []Token, i int) []Edit {
	if i+4 >= len(tokens) || !tokens[i+2].Is("AS") || !tokens[i+3].Is("OF") {
		return nil
	}
	unit := ""
	switch strings.ToUpper(tokens[i+1].Text) {
	case "VERSION", "SYSTEM_VERSION":
		unit = "VERSION"
	case "TIMESTAMP", "SYSTEM_TIME", "TIME", "SYSTEM_TIMESTAMP":
		unit = "TIMESTAMP"
	default:
		return nil
	}
	last := i + 4
	if tokens[last].Kind == Word && last+1 < len(tokens) && tokens[last+1].Kind == String {
		last++ // TIMESTAMP '…'
	}
	out := MoveAlias(text, tokens, tokens[i].Start, last+1)
	return append(out, Edit{Start: tokens[i].Start, End: tokens[i+4].Start, New: "AT (" + unit + " => "}, Edit{Start: tokens[last].End, End: tokens[last].End, New: ")"})
}

// MoveAlias puts the other name of a table, which may begin at index i, before the place of its AT, where DuckDB wants it.
func MoveAlias(text string, tokens []Token, place, i int) []Edit {
	from := i
	if i < len(tokens) && tokens[i].Is("AS") {
		i++
	} else if i < len(tokens) && behindTable(tokens[i]) {
		return nil
	}
	if i >= len(tokens) || !tokens[i].IsIdent() {
		return nil
	}
	if i+1 < len(tokens) && tokens[i+1].Is("(") {
		if i = Close(tokens, i+1); i < 0 {
			return nil
		}
	}
	lo, hi := tokens[from].Start, tokens[i].End
	return []Edit{{Start: place, End: place, New: text[lo:hi] + " "}, {Start: lo, End: hi}}
}

// behindTable reports whether a word behind a table's name is no other name of it.
func behindTable(t Token) bool {
	if t.Kind == Quoted {
		return false
	}
	switch strings.ToUpper(t.Text) {
	case "WHERE", "JOIN", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "NATURAL", "ASOF", "POSITIONAL", "SEMI", "ANTI", "ON", "USING", "GROUP", "ORDER", "LIMIT", "HAVING",
		"QUALIFY", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "OFFSET", "FETCH", "TABLESAMPLE", "PIVOT", "UNPIVOT", "SELECT", "FOR", "WITH", "RETURNING", "LATERAL":
		return true
	}
	return false
}
