//go:build linux

package engine

/*
#cgo LDFLAGS: -Wl,--wrap=open -Wl,--wrap=access -Wl,--wrap=unlink -Wl,--wrap=__xstat
#cgo LDFLAGS: -Wl,--wrap=pread -Wl,--wrap=read -Wl,--wrap=close
*/
import "C"

const canWrap = true
