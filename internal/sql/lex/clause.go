package lex

// FromWhere is where, in words, the FROM clause of the SELECT that word k stands in begins, its WHERE, 0 without, and what comes
// behind both.
func FromWhere(tokens []Token, k int) (from, where, end int, ok bool) {
	if k < 0 {
		return 0, 0, 0, false
	}
	depth := 0
	for from = k; from >= 0; from-- {
		t := tokens[from]
		switch {
		case t.Is(")") || t.Is("]"):
			depth++
		case t.Is("(") || t.Is("["):
			depth-- // brackets around tables in FROM
		case depth <= 0 && t.Is("FROM") && !(from > 0 && (tokens[from-1].Is(".") || tokens[from-1].Is("DISTINCT"))):
			depth = 1 << 30
		}
		if depth == 1<<30 {
			break
		}
	}
	if from < 0 {
		return 0, 0, 0, false
	}
	depth = 0
	for end = from + 1; end < len(tokens); end++ {
		t := tokens[end]
		switch {
		case t.Is("(") || t.Is("[") || t.Is("{"):
			depth++
			continue
		case t.Is(")") || t.Is("]") || t.Is("}"):
			depth--
		}
		if depth < 0 {
			break
		}
		if depth > 0 || tokens[end-1].Is(".") {
			continue
		}
		if t.Is("WHERE") && where == 0 {
			where = end
			continue
		}
		if t.Is(";") || t.Is("SELECT") || t.Is("GROUP") && !tokens[end-1].Is("WITHIN") || t.Is("HAVING") || t.Is("WINDOW") || t.Is("QUALIFY") || t.Is("ORDER") || t.Is("LIMIT") || t.Is("OFFSET") || t.Is("FETCH") ||
			t.Is("UNION") || t.Is("INTERSECT") || t.Is("EXCEPT") {
			break
		}
	}
	return from, where, end, end > k
}

// With is the length of the WITH that a statement begins with, in bytes; 0 without.
func With(tokens []Token) int {
	if len(tokens) == 0 || !tokens[0].Is("WITH") {
		return 0
	}
	depth := 0
	for _, t := range tokens {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		case depth == 0 && (t.Is("SELECT") || t.Is("FROM") || t.Is("VALUES") || t.Is("TABLE")):
			return t.Start
		}
	}
	return 0
}

// OuterFrom is the place in the text of the FROM clause of the query around the SELECT that word k stands in, as far as it lies
// before that SELECT where this is a part of it. ok is false when there is none, or when it stands in the condition of a join.
func OuterFrom(tokens []Token, k int) (lo, hi int, ok bool) {
	if k < 0 {
		return 0, 0, false
	}
	open := around(tokens, k)
	for open >= 0 && !(open+1 < len(tokens) && beginsSelect(tokens[open+1])) {
		open = around(tokens, open) // brackets around tables
	}
	if open < 1 {
		return 0, 0, false
	}
	at := clause(tokens, open-1)
	if at < 0 {
		return 0, 0, false
	}
	if tokens[at].Is("FROM") {
		end := open
		for end > at+1 && (tokens[end-1].Is(",") || joinWord(tokens[end-1])) {
			end--
		}
		if end == at+1 || end == open {
			return 0, 0, false // in the condition of a join
		}
		return tokens[at].Start, tokens[end-1].End, true
	}
	from := -1
	if tokens[at].Is("SELECT") {
		for i := at + 1; i < len(tokens); i++ {
			t := tokens[i]
			if t.Is("(") || t.Is("[") || t.Is("{") {
				if i = Close(tokens, i); i < 0 {
					break
				}
				continue
			}
			if t.Is(")") || t.Is(";") || t.Is("UNION") || t.Is("INTERSECT") || t.Is("EXCEPT") {
				break
			}
			if t.Is("FROM") && !tokens[i-1].Is("DISTINCT") && !tokens[i-1].Is(".") {
				from = i
				break
			}
		}
	} else {
		for from = clause(tokens, at-1); from >= 0 && !tokens[from].Is("FROM") && !tokens[from].Is("SELECT"); {
			from = clause(tokens, from-1)
		}
	}
	if from < 0 || !tokens[from].Is("FROM") {
		return 0, 0, false
	}
	end := from + 1
	for ; end < len(tokens); end++ {
		t := tokens[end]
		if t.Is("(") || t.Is("[") || t.Is("{") {
			if end = Close(tokens, end); end < 0 {
				return 0, 0, false
			}
			continue
		}
		if t.Is(")") || t.Is(";") || clauseWord(t) || t.Is("UNION") || t.Is("INTERSECT") || t.Is("EXCEPT") || t.Is("LIMIT") || t.Is("OFFSET") || t.Is("FETCH") || t.Is("WINDOW") {
			break
		}
	}
	return tokens[from].Start, tokens[end-1].End, true
}

// around is the bracket that a word stands in; -1 for none.
func around(tokens []Token, k int) int {
	depth := 0
	for k--; k >= 0; k-- {
		switch t := tokens[k]; {
		case t.Is(")") || t.Is("]") || t.Is("}"):
			depth++
		case t.Is("(") || t.Is("[") || t.Is("{"):
			if depth == 0 {
				return k
			}
			depth--
		}
	}
	return -1
}

// clause is the word that begins the clause of a query that a word stands in, through brackets of expressions; -1 for none.
func clause(tokens []Token, k int) int {
	depth := 0
	for ; k >= 0; k-- {
		switch t := tokens[k]; {
		case t.Is(")") || t.Is("]") || t.Is("}"):
			depth++
		case t.Is("(") || t.Is("[") || t.Is("{"):
			depth = max(depth-1, 0)
		case depth == 0 && clauseWord(t) && !(k > 0 && (tokens[k-1].Is(".") || t.Is("FROM") && tokens[k-1].Is("DISTINCT"))):
			return k
		}
	}
	return -1
}

// clauseWord tells the words that begin the clauses of a SELECT, up to ORDER.
func clauseWord(t Token) bool {
	return t.Is("SELECT") || t.Is("FROM") || t.Is("WHERE") || t.Is("GROUP") || t.Is("HAVING") || t.Is("QUALIFY") || t.Is("ORDER")
}

// joinWord tells the words that stand between two tables of a FROM clause.
func joinWord(t Token) bool {
	return t.Is("JOIN") || t.Is("INNER") || t.Is("LEFT") || t.Is("RIGHT") || t.Is("FULL") || t.Is("OUTER") || t.Is("CROSS") || t.Is("NATURAL") || t.Is("LATERAL")
}

// beginsSelect tells the words that a query in brackets begins with.
func beginsSelect(t Token) bool {
	return t.Kind == Word && (t.Is("SELECT") || t.Is("WITH") || t.Is("FROM") || t.Is("VALUES"))
}
