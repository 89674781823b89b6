package graph

// Force gives an index that searches by one strategy whatever the costs.
func (x *Index) Force(way string) *Index {
	y := *x
	y.forced = way
	return &y
}
