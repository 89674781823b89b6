package objstore

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNoReplace moves a file to a name that is not taken, else fails with EEXIST, in one step of the file system. File
// systems without that step (NFS among them) do it in two: a second name, then the end of the first.
func renameNoReplace(fromDir int, from string, toDir int, to string) error {
	err := unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return linkNoReplace(fromDir, from, toDir, to)
	}
	return err
}
