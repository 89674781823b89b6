//go:build unix

package engine

import "syscall"

// alive reports whether a process exists. One that we may not signal does.
func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
