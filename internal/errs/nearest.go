package errs

// Nearest returns the name that is fewest edits (Levenshtein's: a byte inserted, removed or replaced) away from a word, for
// hints of the kind "did you mean"; "" when none is within most edits. The first of several equally near names wins.
func Nearest(word string, names []string, most int) string {
	best, distance := "", most+1
	for _, n := range names {
		if d := edits(word, n); d < distance {
			best, distance = n, d
		}
	}
	return best
}

func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			last, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, last+cost)
		}
	}
	return row[len(b)]
}
