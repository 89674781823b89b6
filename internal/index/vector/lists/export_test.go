package lists

// SetFlatLists sets the number of lists above which centroids are found in two steps, and gives what it was.
func SetFlatLists(n int) int {
	before := flatLists
	flatLists = n
	return before
}
