package lex

import "strings"

// Operand is the index of the first word of the operand that ends at index i, as :: binds: a literal, a parameter, a
// name, a CASE, a bracket with the function name, the subscripted value or the aggregate before it, or an earlier cast.
func Operand(tokens []Token, i int) int {
	for i >= 0 {
		t := tokens[i]
		before := Token{Kind: Punct}
		switch {
		case t.Is(")") || t.Is("]") || t.Is("}"):
			k := Open(tokens, i)
			if k < 0 {
				return 0
			}
			if i = k; k > 0 {
				before = tokens[k-1]
			}
			switch {
			case t.Is(")") && (before.Is("OVER") || before.Is("FILTER")) && k > 1:
				i = k - 2 // f(…) FILTER (…) OVER (…)
				continue
			case t.Is(")") && before.Is("GROUP") && k > 2 && tokens[k-2].Is("WITHIN"):
				i = k - 3
				continue
			case before.IsIdent() && !operatorWord(before), t.Is("]") && (before.Is(")") || before.Is("]") || before.Is("}") || before.Kind == Param || before.Kind == String):
				i = k - 1
				continue
			}
		case t.Is("END"):
			if k := caseOf(tokens, i); k >= 0 {
				i = k
				break
			}
			fallthrough
		case t.IsIdent():
			i = typeStart(tokens, i)
			if i > 1 && tokens[i-1].Is("OVER") {
				i -= 2 // f(…) OVER w
				continue
			}
			if i > 1 && tokens[i-1].Is(".") {
				i -= 2 // of a name, a call or a bracket
				continue
			}
		case t.Kind == String && i > 0:
			// DATE '…', vector(3) '…'
			switch p := tokens[i-1]; {
			case p.Kind == Word && !operatorWord(p) && !p.Is("END") && !p.Is("NULL") && !p.Is("TRUE") && !p.Is("FALSE"):
				i--
			case p.Is(")"):
				if k := Open(tokens, i-1); k > 0 && tokens[k-1].IsIdent() && !operatorWord(tokens[k-1]) {
					i = k - 1
				}
			}
		}
		if i >= 2 && tokens[i-1].Text == "::" {
			i -= 2
			continue
		}
		if t := tokens[i]; i > 1 && tokens[i-1].Is(".") && t.IsIdent() {
			i -= 2
			continue
		}
		return i
	}
	return 0
}

// typeStart is the index of the first word of a type whose last word is at index i: DOUBLE PRECISION, TIME WITH TIME ZONE.
func typeStart(tokens []Token, i int) int {
	for _, words := range [][]string{{"DOUBLE", "PRECISION"}, {"CHARACTER", "VARYING"}, {"WITH", "TIME", "ZONE"}, {"WITHOUT", "TIME", "ZONE"}} {
		from := i - len(words) + 1
		found := from > 0
		for k, w := range words {
			found = found && tokens[from+k].Is(w)
		}
		if found && len(words) == 3 {
			from-- // TIME or TIMESTAMP
		}
		if found && from > 0 && tokens[from-1].Text == "::" {
			return from
		}
	}
	return i
}

// caseOf is the index of the CASE that ends at index i, or -1.
func caseOf(tokens []Token, i int) int {
	depth := 0
	for k := i; k >= 0; k-- {
		switch {
		case tokens[k].Is("END") && !(k > 0 && tokens[k-1].Is(".")):
			depth++
		case tokens[k].Is("CASE"):
			if depth--; depth == 0 {
				return k
			}
		}
	}
	return -1
}

// operatorWord reports whether a keyword before a bracket or a string is no part of an operand.
func operatorWord(t Token) bool {
	if t.Kind != Word {
		return false
	}
	switch strings.ToUpper(t.Text) {
	case "SELECT", "AND", "OR", "NOT", "IN", "WHERE", "BY", "ON", "WHEN", "THEN", "ELSE", "CASE", "LIKE", "ILIKE", "BETWEEN", "IS", "VALUES", "HAVING", "AS", "FROM",
		"LIMIT", "OFFSET", "RETURNING", "SET", "USING", "DISTINCT", "ALL", "EXISTS", "ANY", "UNION", "EXCEPT", "INTERSECT", "QUALIFY", "FILTER", "OVER", "SIMILAR", "TO":
		return true
	}
	return false
}
