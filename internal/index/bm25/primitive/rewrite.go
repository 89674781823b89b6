package primitive

// Rewrite brings a tree into the form that is run, by the rules of Lucene 8.7 that scores depend on:
//
//   - a Bool of one clause is that clause; a Filter alone scores 0;
//   - terms that repeat among Should clauses (without a minimum beyond one) or among Must clauses become one, whose boost is
//     the sum;
//   - Filter and MustNot clauses that repeat, and a Filter that is also a Must, are dropped;
//   - a Bool of nothing but Should clauses inside another's Should clauses is dissolved into it;
//   - boosts of boosts are multiplied, and a DisMax of one node is that node.
//
// Clauses are folded before they are dissolved. So patterns must have been expanded: two that become the same terms are one.
func Rewrite(n Node) Node {
	switch n := n.(type) {
	case Bool:
		return rewriteBool(n)
	case Boost:
		inner := Rewrite(n.Node)
		if b, ok := inner.(Boost); ok {
			return Boost{b.Node, n.Factor * b.Factor}
		}
		if _, ok := inner.(None); ok || n.Factor == 1 {
			return inner
		}
		return Boost{inner, n.Factor}
	case Constant:
		inner := Rewrite(n.Node)
		for {
			switch x := inner.(type) {
			case Boost:
				inner = x.Node
				continue
			case Constant:
				return x
			case None:
				return x
			}
			return Constant{inner}
		}
	case DisMax:
		out := DisMax{TieBreaker: n.TieBreaker}
		for _, c := range n.Nodes {
			out.Nodes = append(out.Nodes, Rewrite(c))
		}
		switch len(out.Nodes) {
		case 0:
			return None{"empty DisjunctionMaxQuery"}
		case 1:
			return out.Nodes[0]
		}
		return out
	case Function:
		out := n
		out.Query = Rewrite(n.Query)
		out.Functions = make([]RowFunction, len(n.Functions))
		for i, f := range n.Functions {
			if f.Filter != nil {
				f.Filter = Rewrite(f.Filter)
			}
			out.Functions[i] = f
		}
		return out
	}
	return n
}

func rewriteBool(n Bool) Node {
	out := Bool{Min: n.Min, Clauses: make([]Clause, len(n.Clauses))}
	for i, c := range n.Clauses {
		out.Clauses[i] = Clause{c.Occur, Rewrite(c.Node)}
	}
	for changed := true; changed; {
		out, changed = out.merged().dissolved()
	}
	scoring, should, required := 0, 0, 0
	for _, c := range out.Clauses {
		switch c.Occur {
		case Must:
			scoring++
			required++
		case Filter:
			required++
		case Should:
			scoring++
			should++
		}
	}
	switch {
	case len(out.Clauses) == 0:
		return None{"empty BooleanQuery"}
	case required == 0 && should == 0:
		return None{"pure negative BooleanQuery"}
	case should < out.Min:
		return None{"fewer clauses than must match"}
	}
	if len(out.Clauses) == 1 {
		c := out.Clauses[0]
		if c.Occur == Filter {
			return Rewrite(Boost{Constant{c.Node}, 0})
		}
		return c.Node
	}
	return out
}

// dissolved puts the clauses of pure disjunctions in the place of Should clauses.
func (n Bool) dissolved() (Bool, bool) {
	if n.Min > 1 {
		return n, false
	}
	out, changed := Bool{Min: n.Min}, false
	for _, c := range n.Clauses {
		if inner, ok := c.Node.(Bool); ok && c.Occur == Should && inner.Min <= 1 && inner.only(Should) {
			out.Clauses = append(out.Clauses, inner.Clauses...)
			changed = true
			continue
		}
		out.Clauses = append(out.Clauses, c)
	}
	return out, changed
}

func (n Bool) only(o Occur) bool {
	for _, c := range n.Clauses {
		if c.Occur != o {
			return false
		}
	}
	return true
}

// merged folds clauses that are the same query.
func (n Bool) merged() Bool {
	type place struct {
		occur Occur
		key   string
	}
	at := map[place]int{}
	sums := map[int]float64{}
	out := Bool{Min: n.Min}
	must := map[string]bool{}
	for _, c := range n.Clauses {
		if c.Occur == Must {
			must[Key(c.Node)] = true
		}
	}
	for _, c := range n.Clauses {
		switch c.Occur {
		case Filter, MustNot:
			key := Key(c.Node)
			if _, seen := at[place{c.Occur, key}]; seen || c.Occur == Filter && must[key] {
				continue
			}
			at[place{c.Occur, key}] = len(out.Clauses)
		case Should, Must:
			if c.Occur == Should && n.Min > 1 {
				break
			}
			boost, inner := 1.0, c.Node
			if b, ok := inner.(Boost); ok {
				boost, inner = float64(b.Factor), b.Node
			}
			p := place{c.Occur, Key(inner)}
			if i, seen := at[p]; seen {
				if _, summed := sums[i]; !summed {
					sums[i] = 1
					if b, ok := out.Clauses[i].Node.(Boost); ok {
						sums[i] = float64(b.Factor)
					}
				}
				sums[i] += boost
				out.Clauses[i].Node = Rewrite(Boost{inner, float32(sums[i])})
				continue
			}
			at[p] = len(out.Clauses)
		}
		out.Clauses = append(out.Clauses, c)
	}
	return out
}
