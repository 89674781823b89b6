package objstore

import "golang.org/x/sys/unix"

// Trace calls f before every step that a local store makes in the file system.
func Trace(s Store, f func(step string)) { s.(*Local).trace = f }

// LinkNoReplace moves a file as file systems without a renaming that does not replace do it.
func LinkNoReplace(from, to string) error {
	return linkNoReplace(unix.AT_FDCWD, from, unix.AT_FDCWD, to)
}

// LocalError is the classification of errors of the file system.
var LocalError = localError
