package datafile

import (
	"encoding/binary"
	"errors"
)

// Parquet's metadata is Thrift in its compact protocol. The library allocates what the counts in it ask for, so the bytes
// are walked here first: every count must fit into the bytes that are left, which also bounds the depth and the time.

var errThrift = errors.New("the Parquet metadata is cut short or its counts do not fit its length")

const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

const maxThriftDepth = 64

// thriftWalk is a cursor over a struct in the compact protocol.
type thriftWalk struct {
	b  []byte
	at int
}

// structure walks one struct. number is called with the field id and value of every integer field of this struct, booleans
// being 0 and 1, and sub for every field that is a struct itself; a nil sub, or one that returns false, leaves the walking to
// structure.
func (w *thriftWalk) structure(depth int, number func(id int16, v int64), sub func(id int16) (bool, error)) error {
	if depth > maxThriftDepth {
		return errThrift
	}
	id := int16(0)
	for {
		head, err := w.byte()
		if err != nil {
			return err
		}
		if head == 0 {
			return nil
		}
		if delta := int16(head >> 4); delta != 0 {
			id += delta
		} else {
			v, err := w.zigzag()
			if err != nil {
				return err
			}
			id = int16(v)
		}
		switch kind := head & 15; kind {
		case thriftTrue, thriftFalse: // the value is in the type
			if number != nil {
				number(id, int64(thriftFalse-kind))
			}
		case thriftI16, thriftI32, thriftI64:
			v, err := w.zigzag()
			if err != nil {
				return err
			}
			if number != nil {
				number(id, v)
			}
		case thriftStruct:
			done := false
			if sub != nil {
				if done, err = sub(id); err != nil {
					return err
				}
			}
			if !done {
				err = w.structure(depth+1, nil, nil)
			}
			if err != nil {
				return err
			}
		default:
			if err := w.value(kind, depth, false); err != nil {
				return err
			}
		}
	}
}

// value walks over one value. A boolean has a byte of its own only within lists and maps.
func (w *thriftWalk) value(kind byte, depth int, within bool) error {
	if depth > maxThriftDepth {
		return errThrift
	}
	switch kind {
	case thriftTrue, thriftFalse:
		if !within {
			return nil
		}
		return w.skip(1)
	case thriftByte:
		return w.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := w.zigzag()
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftUUID:
		return w.skip(16)
	case thriftBinary:
		n, err := w.varint()
		if err != nil || n > uint64(len(w.b)-w.at) {
			return errThrift
		}
		return w.skip(int(n))
	case thriftList, thriftSet:
		head, err := w.byte()
		if err != nil {
			return err
		}
		n := uint64(head >> 4)
		if n == 15 {
			if n, err = w.varint(); err != nil {
				return err
			}
		}
		if n > uint64(len(w.b)-w.at) { // no element is shorter than a byte
			return errThrift
		}
		for range n {
			if err := w.value(head&15, depth+1, true); err != nil {
				return err
			}
		}
		return nil
	case thriftMap:
		n, err := w.varint()
		if err != nil || n > uint64(len(w.b)-w.at) {
			return errThrift
		}
		if n == 0 {
			return nil
		}
		kinds, err := w.byte()
		if err != nil {
			return err
		}
		for range n {
			if err := w.value(kinds>>4, depth+1, true); err != nil {
				return err
			}
			if err := w.value(kinds&15, depth+1, true); err != nil {
				return err
			}
		}
		return nil
	case thriftStruct:
		return w.structure(depth+1, nil, nil)
	}
	return errThrift
}

// field reads an integer field of the type whose id is one more than that of the field before.
func (w *thriftWalk) field(kind byte, v *int64) bool {
	if w.at >= len(w.b) || w.b[w.at] != 1<<4|kind {
		return false
	}
	w.at++
	var err error
	*v, err = w.zigzag()
	return err == nil
}

// end reads the end of a struct.
func (w *thriftWalk) end() bool {
	w.at++
	return w.at <= len(w.b) && w.b[w.at-1] == 0
}

func (w *thriftWalk) byte() (byte, error) {
	if w.at >= len(w.b) {
		return 0, errThrift
	}
	w.at++
	return w.b[w.at-1], nil
}

func (w *thriftWalk) skip(n int) error {
	if n > len(w.b)-w.at {
		return errThrift
	}
	w.at += n
	return nil
}

func (w *thriftWalk) varint() (uint64, error) {
	v, n := binary.Uvarint(w.b[w.at:])
	if n <= 0 {
		return 0, errThrift
	}
	w.at += n
	return v, nil
}

func (w *thriftWalk) zigzag() (int64, error) {
	v, err := w.varint()
	return int64(v>>1) ^ -int64(v&1), err
}
