//go:build unix

package objstore

import (
	"os"
	"sync"
	"syscall"

	"github.com/overlakedb/overlake/internal/errs"
)

// Map is that of Mapper.
func (o *localObject) Map(off, length int64) (b []byte, unmap func(), err error) {
	if off < 0 || length <= 0 || off > o.size-length {
		return nil, nil, errs.Newf(errs.Invalid, "objstore.map", "%d bytes at %d of %d", length, off, o.size)
	}
	from := off - off%int64(os.Getpagesize())
	all, err := syscall.Mmap(int(o.f.Fd()), from, int(off+length-from), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, localError("objstore.map", o.name, os.NewSyscallError("mmap", err))
	}
	var once sync.Once
	return all[off-from:], func() { once.Do(func() { syscall.Munmap(all) }) }, nil
}
