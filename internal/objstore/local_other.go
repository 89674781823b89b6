//go:build !linux

package objstore

// renameNoReplace moves a file to a name that is not taken, else fails with EEXIST.
func renameNoReplace(fromDir int, from string, toDir int, to string) error {
	return linkNoReplace(fromDir, from, toDir, to)
}
