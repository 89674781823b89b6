//go:build !unix

package engine

// alive cannot be told here, so nothing is swept.
func alive(int) bool { return true }
