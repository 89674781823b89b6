package objstore

import "golang.org/x/sys/unix"

// linkNoReplace gives a file a second name, which fails with EEXIST when it is taken, and takes the first away. Dying
// between the two leaves a temporary file that shares its bytes with the object: sweeping it leaves the object whole.
func linkNoReplace(fromDir int, from string, toDir int, to string) error {
	if err := unix.Linkat(fromDir, from, toDir, to, 0); err != nil {
		return err
	}
	// The object is published; a first name that stays is swept once this process has ended.
	_ = unix.Unlinkat(fromDir, from, 0)
	return nil
}
