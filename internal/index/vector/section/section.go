// Package section answers: where in a vector index is each part, and is it whole?
//
// An artifact of a vector index is a row of sections: runs of bytes of one kind each, such as codes, links or centroids. A
// section begins at a multiple of 64 bytes and holds numbers in little endian, so that its bytes can be used as they are,
// read or mapped. A table at the end says where each one is and what its checksum is.
//
//	S1  Every byte of an artifact is under a checksum: sections by their own, all else by those of table and tail.
//	S2  A section that a reader does not know can be skipped. A kind is there at most once.
//	S3  What is read by ranges is not checked by this room: a section that is made for it holds checksums of its pieces.
package section

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
)

// The bytes, all numbers little endian:
//
//	head     64 bytes: "OLVX", uint16 version 1, zeros
//	sections each at a multiple of 64; the bytes between are zero
//	table    at a multiple of 64, 32 bytes a section in the order of their bytes:
//	         uint32 kind, uint32 CRC-32C, uint64 offset, uint64 length, uint64 zero
//	tail     64 bytes: uint64 offset of the table, uint64 bytes of the artifact, uint32 sections, uint32 CRC-32C of the
//	         table, uint16 version 1, zeros up to byte 56, uint32 CRC-32C of the 56 bytes before, "OLVX"
const (
	Align       = 64
	version     = 1
	magic       = "OLVX"
	headSize    = 64
	tailSize    = 64
	entrySize   = 32
	maxSections = 256
)

// Kind names a section. Numbers are part of the format; a package that writes sections has a range of its own.
type Kind uint32

// Source reads bytes of an artifact, counted from its begin.
type Source interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
}

// Memory is an artifact in memory, for tests and tools. It is read from where it is and cannot be mapped.
type Memory []byte

// ReadAtContext copies what is there; where that is less than asked for, the error is io.EOF.
func (m Memory) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Mapper is implemented by sources whose bytes can be mapped into memory. The bytes are there until unmap is called.
type Mapper interface {
	Map(ctx context.Context, off, length int64) (b []byte, unmap func(), err error)
}

// Section is one entry of the table.
type Section struct {
	Kind   Kind
	Offset int64
	Length int64
	Sum    uint32 // CRC-32C of its bytes
}

// Writer writes an artifact front to back.
type Writer struct {
	out   io.Writer
	at    int64
	table []Section
	open  bool
	err   error
}

// NewWriter begins an artifact.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out}
	head := make([]byte, headSize)
	copy(head, magic)
	binary.LittleEndian.PutUint16(head[4:], version)
	w.put(head)
	return w
}

func (w *Writer) put(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.out.Write(b)
	w.at += int64(n)
	if err != nil {
		w.err = errs.Wrap(errs.KindOf(err), "section.write", err)
	}
}

func (w *Writer) align() {
	if n := w.at % Align; n != 0 {
		w.put(make([]byte, Align-n))
	}
}

// Begin begins a section; the one before ends. What Write takes from now on is its bytes.
func (w *Writer) Begin(kind Kind) {
	if slices.ContainsFunc(w.table, func(s Section) bool { return s.Kind == kind }) {
		panic("section: a kind twice")
	}
	w.align()
	w.table = append(w.table, Section{Kind: kind, Offset: w.at})
	w.open = true
}

// Write takes bytes of the section begun last.
func (w *Writer) Write(b []byte) (int, error) {
	if !w.open {
		panic("section: no section was begun")
	}
	s := &w.table[len(w.table)-1]
	w.put(b)
	if w.err != nil {
		return 0, w.err
	}
	s.Length += int64(len(b))
	s.Sum = checksum.Update(s.Sum, b)
	return len(b), nil
}

// Err is the first error of a write.
func (w *Writer) Err() error { return w.err }

// Close ends the artifact and gives its size.
func (w *Writer) Close() (int64, error) {
	w.open = false
	w.align()
	at := w.at
	table := appendTable(nil, w.table)
	w.put(table)
	w.put(appendTail(nil, at, table, len(w.table)))
	return w.at, w.err
}

func appendTable(b []byte, table []Section) []byte {
	for _, s := range table {
		b = binary.LittleEndian.AppendUint32(b, uint32(s.Kind))
		b = binary.LittleEndian.AppendUint32(b, s.Sum)
		b = binary.LittleEndian.AppendUint64(b, uint64(s.Offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.Length))
		b = binary.LittleEndian.AppendUint64(b, 0)
	}
	return b
}

func appendTail(b []byte, at int64, table []byte, sections int) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(at))
	b = binary.LittleEndian.AppendUint64(b, uint64(at)+uint64(len(table))+tailSize)
	b = binary.LittleEndian.AppendUint32(b, uint32(sections))
	b = binary.LittleEndian.AppendUint32(b, checksum.Of(table))
	b = binary.LittleEndian.AppendUint16(b, version)
	b = append(b, make([]byte, from+56-len(b))...)
	b = binary.LittleEndian.AppendUint32(b, checksum.Of(b[from:]))
	return append(b, magic...)
}

// File is an opened artifact. It is never changed and safe for concurrent use. What Load gives may be mapped, and is then
// there as long as the File can be reached: who uses it keeps the File alive.
type File struct {
	src   Source
	size  int64
	table []Section
	sum   uint32
	maps  *mappings
}

// mappings are what to give back when a File is no longer reached.
type mappings struct {
	mu    sync.Mutex
	unmap []func()
	once  sync.Once
	can   bool
	held  int64 // bytes that were read instead
}

func (m *mappings) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.unmap {
		f()
	}
	m.unmap = nil
}

func corrupt(format string, args ...any) error {
	return errs.Newf(errs.Corrupt, "section.open", format, args...)
}

// guess is how much of the end is read at once: the tail, and most tables.
const guess = tailSize + 62*entrySize

// Open reads the table of an artifact of the given size.
func Open(ctx context.Context, src Source, size int64) (*File, error) {
	if size < headSize+tailSize || size%Align != 0 && (size-tailSize)%entrySize != 0 {
		return nil, corrupt("%d bytes are no artifact", size)
	}
	end := make([]byte, min(size, guess))
	if err := read(ctx, src, end, size-int64(len(end))); err != nil {
		return nil, err
	}
	tail := end[len(end)-tailSize:]
	if string(tail[60:]) != magic || checksum.Of(tail[:56]) != binary.LittleEndian.Uint32(tail[56:]) {
		return nil, corrupt("the tail fails its checksum")
	}
	if v := binary.LittleEndian.Uint16(tail[24:]); v != version {
		return nil, errs.Newf(errs.Unsupported, "section.open", "version %d of the format", v)
	}
	at, n := binary.LittleEndian.Uint64(tail), binary.LittleEndian.Uint32(tail[16:])
	if whole := binary.LittleEndian.Uint64(tail[8:]); whole != uint64(size) || n > maxSections || at != uint64(size)-tailSize-uint64(n)*entrySize {
		return nil, corrupt("the tail is not that of %d bytes", size)
	}
	table := make([]byte, n*entrySize)
	if from := int64(at) - (size - int64(len(end))); from >= 0 {
		copy(table, end[from:])
	} else if err := read(ctx, src, table, int64(at)); err != nil {
		return nil, err
	}
	if checksum.Of(table) != binary.LittleEndian.Uint32(tail[20:]) {
		return nil, corrupt("the table fails its checksum")
	}
	f := &File{src: src, size: size, table: make([]Section, n), maps: &mappings{}}
	runtime.AddCleanup(f, (*mappings).release, f.maps)
	head := make([]byte, headSize)
	copy(head, magic)
	binary.LittleEndian.PutUint16(head[4:], version)
	f.sum = checksum.Of(head)
	next := int64(headSize)
	for i := range f.table {
		e := table[i*entrySize:]
		s := Section{Kind: Kind(binary.LittleEndian.Uint32(e)), Sum: binary.LittleEndian.Uint32(e[4:]),
			Offset: int64(binary.LittleEndian.Uint64(e[8:])), Length: int64(binary.LittleEndian.Uint64(e[16:]))}
		if s.Offset < next || s.Offset-next >= Align || s.Offset%Align != 0 || s.Length < 0 || s.Length > int64(at)-s.Offset {
			return nil, corrupt("section %d lies outside of its place", i)
		}
		if slices.ContainsFunc(f.table[:i], func(o Section) bool { return o.Kind == s.Kind }) {
			return nil, corrupt("section kind %d is there twice", s.Kind)
		}
		f.table[i] = s
		f.join(make([]byte, s.Offset-next))
		f.sum = checksum.Join(f.sum, s.Sum, s.Length)
		next = s.Offset + s.Length
	}
	if int64(at)-next >= Align || int64(at) < next || at%Align != 0 {
		return nil, corrupt("the table lies outside of its place")
	}
	f.join(make([]byte, int64(at)-next))
	f.join(table)
	f.join(tail)
	return f, nil
}

func (f *File) join(b []byte) { f.sum = checksum.Join(f.sum, checksum.Of(b), int64(len(b))) }

func read(ctx context.Context, src Source, p []byte, off int64) error {
	n, err := src.ReadAtContext(ctx, p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return corrupt("%d bytes at %d end after %d", len(p), off, n)
	}
	return err
}

// Sum is the CRC-32C of the whole artifact, put together from what the table says.
func (f *File) Sum() uint32 { return f.sum }

// Size is the size of the artifact in bytes.
func (f *File) Size() int64 { return f.size }

// Sections lists the table.
func (f *File) Sections() []Section { return f.table }

// Find gives the entry of a section.
func (f *File) Find(kind Kind) (Section, bool) {
	for _, s := range f.table {
		if s.Kind == kind {
			return s, true
		}
	}
	return Section{}, false
}

// mapFrom is from how many bytes on a section is mapped: a process can have some 65,000 mappings, which a smaller one is not
// worth.
const mapFrom = 64 << 10

// Load gives a section whole, mapped where it is large and the source can, and checks it; Corrupt when it is not there. What
// is read begins at a multiple of 64 in memory.
func (f *File) Load(ctx context.Context, kind Kind) (b []byte, err error) {
	s, ok := f.Find(kind)
	if !ok {
		return nil, corrupt("section %d is missing", kind)
	}
	// Of a mapped file that was cut short meanwhile, reading the end is a fault of the processor.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if x := recover(); x != nil {
			b, err = nil, corrupt("section %d cannot be read: %v", kind, x)
		}
	}()
	if b = f.mapped(ctx, s); b == nil {
		if b, err = f.read(ctx, s); err != nil {
			return nil, err
		}
	}
	if checksum.Of(b) != s.Sum {
		return nil, corrupt("section %d fails its checksum", kind)
	}
	return b, nil
}

// mapped maps a section; nil when it has to be read, also because the system has no room for one more mapping.
func (f *File) mapped(ctx context.Context, s Section) []byte {
	m, ok := f.src.(Mapper)
	if !ok || s.Length < mapFrom {
		return nil
	}
	b, unmap, err := m.Map(ctx, s.Offset, s.Length)
	if err != nil {
		return nil // reading tells why, if it fails too
	}
	f.maps.mu.Lock()
	f.maps.unmap = append(f.maps.unmap, unmap)
	f.maps.mu.Unlock()
	return b
}

// CanMap tells whether large sections are mapped.
func (f *File) CanMap(ctx context.Context) bool {
	f.maps.once.Do(func() {
		m, ok := f.src.(Mapper)
		for _, s := range f.table {
			if ok && s.Length >= mapFrom {
				_, unmap, err := m.Map(ctx, s.Offset, s.Length)
				if f.maps.can = err == nil; err == nil {
					unmap()
				}
				return
			}
		}
	})
	return f.maps.can
}

// Maps is how many sections Load mapped: then it is the system that holds them in memory, or does not. Held is the number
// of bytes of those that it read.
func (f *File) Maps() (n int) {
	f.maps.mu.Lock()
	defer f.maps.mu.Unlock()
	return len(f.maps.unmap)
}

// Held is beside Maps.
func (f *File) Held() int64 {
	f.maps.mu.Lock()
	defer f.maps.mu.Unlock()
	return f.maps.held
}

// read reads a section. Its length can be trusted: it ends before the tail, which was read from where it is.
func (f *File) read(ctx context.Context, s Section) ([]byte, error) {
	const step = 16 << 20
	b := Aligned(int(s.Length))
	for at := int64(0); at < s.Length; at += step {
		if err := read(ctx, f.src, b[at:min(at+step, s.Length)], s.Offset+at); err != nil {
			return nil, err
		}
	}
	f.maps.mu.Lock()
	f.maps.held += s.Length
	f.maps.mu.Unlock()
	return b, nil
}

// ReadAt reads a range of a section, which is not checked.
func (f *File) ReadAt(ctx context.Context, kind Kind, p []byte, off int64) error {
	s, ok := f.Find(kind)
	if !ok {
		return corrupt("section %d is missing", kind)
	}
	if off < 0 || off > s.Length-int64(len(p)) {
		return corrupt("%d bytes at %d of section %d, which has %d", len(p), off, kind, s.Length)
	}
	return read(ctx, f.src, p, s.Offset+off)
}

// Aligned makes room that begins at a multiple of 64 bytes.
func Aligned(n int) []byte {
	if n > math.MaxInt-Align {
		panic("section: too large")
	}
	b := make([]byte, n+Align)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (Align - 1)
	return b[skip : skip+n : skip+n]
}

// Number is what sections are made of.
type Number interface {
	~uint8 | ~int8 | ~uint16 | ~uint32 | ~int32 | ~uint64 | ~int64 | ~float32
}

// View takes the bytes of a section for numbers, without a copy on machines of little endian. It fails when they are no
// whole number of them.
func View[T Number](b []byte) ([]T, error) {
	size := int(unsafe.Sizeof(*new(T)))
	if len(b)%size != 0 {
		return nil, corrupt("%d bytes are no whole number of %d", len(b), size)
	}
	if len(b) == 0 {
		return nil, nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if little && uintptr(p)%uintptr(size) == 0 {
		return unsafe.Slice((*T)(p), len(b)/size), nil
	}
	out := make([]T, len(b)/size)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), len(b))
	copy(raw, b)
	if !little {
		swap(raw, size)
	}
	return out, nil
}

// Bytes gives numbers as a section holds them. The bytes must not be changed: they may be those of the numbers.
func Bytes[T Number](v []T) []byte {
	size := int(unsafe.Sizeof(*new(T)))
	if len(v) == 0 {
		return nil
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*size)
	if !little {
		b = slices.Clone(b)
		swap(b, size)
	}
	return b
}

var little = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

func swap(b []byte, size int) {
	for at := 0; at < len(b); at += size {
		slices.Reverse(b[at : at+size])
	}
}
