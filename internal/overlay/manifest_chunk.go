package overlay

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/checksum"
)

// A chunk, in bytes. Numbers are varints of encoding/binary, unsigned unless said otherwise; a text is its length and its
// bytes.
//
//	"OLMC" 01                     magic and format
//	count, texts                  what artifacts share: index ids, fingerprints, types, bundles below the prefix
//	count, files                  ascending by path, size, ETag and rows, each once:
//	  shared                        bytes of the path that are those of the path before
//	  text                          the rest of the path
//	  size, text ETag, rows
//	count, artifacts              oldest first:
//	  index, fingerprint, type, bundle   numbers of texts
//	  offset, length, text CRC, rows
//	  flags                         1: Min follows, 2: Max follows
//	  [text Min] [text Max]
//	  distinct, nulls               signed
//	  count, covered files:
//	    file                          signed: number of the file, less the one before plus one
//	    base                          signed: less the one before
const chunkMagic = "OLMC\x01"

// chunk is a chunk in memory. It never changes, and versions share it.
type chunk struct {
	artifacts []Artifact

	files  []FileKey
	byPath map[string]int32 // number of the first file with the path
	// refs[starts[f]:starts[f+1]] are the artifacts that cover file f, oldest first.
	starts []int32
	refs   []int32
}

// manifestSum is the checksum that heads keep of chunks and of themselves.
func manifestSum(b []byte) string {
	return fmt.Sprintf("%08x", checksum.Of(b))
}

func compareFiles(a, b FileKey) int {
	return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Size, b.Size), strings.Compare(a.ETag, b.ETag), cmp.Compare(a.Rows, b.Rows))
}

// encodeChunk writes artifacts, which were checked, whose bundles lie below the prefix.
func encodeChunk(prefix string, artifacts []*Artifact) []byte {
	var texts []string
	numbers := map[string]uint64{}
	number := func(s string) uint64 {
		n, ok := numbers[s]
		if !ok {
			n = uint64(len(texts))
			numbers[s] = n
			texts = append(texts, s)
		}
		return n
	}
	at := map[FileKey]int64{}
	var files []FileKey
	for _, a := range artifacts {
		for i := range a.Files {
			if _, seen := at[a.Files[i].FileKey]; !seen {
				at[a.Files[i].FileKey] = 0
				files = append(files, a.Files[i].FileKey)
			}
		}
	}
	slices.SortFunc(files, compareFiles)
	for i, f := range files {
		at[f] = int64(i)
	}

	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	body := binary.AppendUvarint(nil, uint64(len(files)))
	before := ""
	for _, f := range files {
		shared := 0
		for shared < min(len(before), len(f.Path)) && before[shared] == f.Path[shared] {
			shared++
		}
		body = binary.AppendUvarint(body, uint64(shared))
		body = text(body, f.Path[shared:])
		body = binary.AppendUvarint(body, uint64(f.Size))
		body = text(body, f.ETag)
		body = binary.AppendUvarint(body, uint64(f.Rows))
		before = f.Path
	}
	body = binary.AppendUvarint(body, uint64(len(artifacts)))
	for _, a := range artifacts {
		for _, s := range []string{a.Index, a.Fingerprint, a.Type, strings.TrimPrefix(a.Bundle, prefix+"/")} {
			body = binary.AppendUvarint(body, number(s))
		}
		body = binary.AppendUvarint(body, uint64(a.Offset))
		body = binary.AppendUvarint(body, uint64(a.Length))
		body = text(body, a.CRC)
		body = binary.AppendUvarint(body, uint64(a.Rows))
		var flags uint64
		if a.Min != nil {
			flags |= 1
		}
		if a.Max != nil {
			flags |= 2
		}
		body = binary.AppendUvarint(body, flags)
		if a.Min != nil {
			body = text(body, string(a.Min))
		}
		if a.Max != nil {
			body = text(body, string(a.Max))
		}
		body = binary.AppendVarint(body, a.Distinct)
		body = binary.AppendVarint(body, a.Nulls)
		body = binary.AppendUvarint(body, uint64(len(a.Files)))
		next, base := int64(0), int64(0)
		for i := range a.Files {
			n := at[a.Files[i].FileKey]
			body = binary.AppendVarint(body, n-next)
			body = binary.AppendVarint(body, a.Files[i].Base-base)
			next, base = n+1, a.Files[i].Base
		}
	}

	out := binary.AppendUvarint([]byte(chunkMagic), uint64(len(texts)))
	for _, s := range texts {
		out = text(out, s)
	}
	return append(out, body...)
}

// errChunkFormat is about chunks of a later version of this program.
var errChunkFormat = errors.New("its format is not known")

// chunkReader reads the parts of a chunk. After a failure it gives zeros. What it gives to be kept comes from a few large
// allocations, because an overlay has hundreds of thousands of small parts.
type chunkReader struct {
	b    []byte // what is not read yet
	text string // all of the chunk
	err  error

	bytesLeft   []byte
	coveredLeft []CoveredFile
}

// ownBytes and ownCovered give parts of larger allocations.
func (r *chunkReader) ownBytes(b []byte) []byte {
	if len(b) == 0 {
		return []byte{} // empty, and not nil, which means not known
	}
	if len(b) > len(r.bytesLeft) {
		r.bytesLeft = make([]byte, max(len(b), min(len(r.text), 16<<10)))
	}
	out := r.bytesLeft[:len(b):len(b)]
	r.bytesLeft = r.bytesLeft[len(b):]
	copy(out, b)
	return out
}

func (r *chunkReader) ownCovered(n int) []CoveredFile {
	if n > len(r.coveredLeft) {
		r.coveredLeft = make([]CoveredFile, max(n, min(len(r.b)/16, 512)))
	}
	out := r.coveredLeft[:n:n]
	r.coveredLeft = r.coveredLeft[n:]
	return out
}

func (r *chunkReader) fail(err error) {
	if r.err == nil {
		r.err = err
		r.b = nil
	}
}

func (r *chunkReader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(io.ErrUnexpectedEOF)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *chunkReader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(io.ErrUnexpectedEOF)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// size reads a number that is no more than most.
func (r *chunkReader) size(most uint64) int64 {
	v := r.uint()
	if v > most {
		r.fail(fmt.Errorf("a number is %d, more than %d", v, most))
		return 0
	}
	return int64(v)
}

// count reads a number of things that take at least least bytes each, of which there may be most.
func (r *chunkReader) count(least, most int) int {
	return int(r.size(uint64(min(most, len(r.b)/least))))
}

func (r *chunkReader) bytes() []byte {
	n := r.size(maxText)
	if int(n) > len(r.b) {
		r.fail(io.ErrUnexpectedEOF)
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// string reads a text that stays.
func (r *chunkReader) string() string {
	at := len(r.text) - len(r.b)
	n := len(r.bytes())
	if r.err != nil {
		return ""
	}
	end := len(r.text) - len(r.b)
	return r.text[max(at, end-n):end]
}

// decodeChunk reads a chunk. It keeps nothing of b.
func decodeChunk(prefix string, b []byte) (*chunk, error) {
	if len(b) < len(chunkMagic) || string(b[:4]) != chunkMagic[:4] {
		return nil, errors.New("it is no chunk of an overlay's manifest")
	}
	if b[4] != chunkMagic[4] {
		return nil, fmt.Errorf("%w: %d", errChunkFormat, b[4])
	}
	r := &chunkReader{b: b[len(chunkMagic):], text: string(b)}
	texts := make([]string, r.count(1, maxArtifacts))
	for i := range texts {
		texts[i] = r.string()
	}
	number := func() int {
		if n := r.uint(); n < uint64(len(texts)) {
			return int(n)
		}
		r.fail(errors.New("it names a text that it does not have"))
		return -1
	}
	text := func() string {
		if n := number(); n >= 0 {
			return texts[n]
		}
		return ""
	}
	bundles := make(map[int]string)
	bundle := func() string {
		n := number()
		if n < 0 {
			return ""
		}
		name, known := bundles[n]
		if !known {
			name = prefix + "/" + texts[n]
			if err := checkBundle(prefix, name); err != nil {
				r.fail(err)
			}
			bundles[n] = name
		}
		return name
	}
	const most = 1 << 62
	c := &chunk{files: make([]FileKey, r.count(5, maxCovered))}
	var path []byte
	for i := range c.files {
		shared := r.size(uint64(len(path)))
		path = append(path[:shared], r.bytes()...)
		if len(path) > maxText {
			r.fail(errors.New("a path is too long"))
		}
		if r.err != nil {
			return nil, r.err
		}
		f := FileKey{Path: string(path), Size: r.size(most), ETag: r.string(), Rows: r.size(most)}
		if i > 0 && compareFiles(c.files[i-1], f) >= 0 {
			r.fail(errors.New("its files are not in order"))
		}
		c.files[i] = f
	}
	c.artifacts = make([]Artifact, r.count(13, maxArtifacts))
	covered := 0
	var numbers []int32 // of the files of all artifacts, one behind the other
	for i := range c.artifacts {
		a := &c.artifacts[i]
		a.Index, a.Fingerprint, a.Type, a.Bundle = text(), text(), text(), bundle()
		a.Offset, a.Length, a.CRC, a.Rows = r.size(most), r.size(most), r.string(), r.size(most)
		flags := r.size(3)
		if flags&1 != 0 {
			a.Min = r.ownBytes(r.bytes())
		}
		if flags&2 != 0 {
			a.Max = r.ownBytes(r.bytes())
		}
		a.Distinct, a.Nulls = r.int(), r.int()
		n := r.count(2, maxCovered-covered)
		if r.err != nil {
			return nil, r.err
		}
		covered += n
		a.Files = r.ownCovered(n)
		next, base := int64(0), int64(0)
		for j := range a.Files {
			f, b := next+r.int(), base+r.int() // which may overflow, and is then out of range
			if r.err != nil {
				return nil, r.err
			}
			if f < 0 || f >= int64(len(c.files)) {
				return nil, errors.New("it names a file that it does not have")
			}
			a.Files[j] = CoveredFile{FileKey: c.files[f], Base: b}
			numbers = append(numbers, int32(f))
			next, base = f+1, b
		}
		if err := a.check(); err != nil {
			return nil, err
		}
	}
	if len(r.b) > 0 {
		r.fail(fmt.Errorf("%d bytes follow it", len(r.b)))
	}
	if r.err != nil {
		return nil, r.err
	}
	c.index(numbers)
	return c, nil
}

// index makes what lookups need. It takes the numbers of the files of all artifacts, one behind the other.
func (c *chunk) index(numbers []int32) {
	c.byPath = make(map[string]int32, len(c.files))
	for i := len(c.files) - 1; i >= 0; i-- {
		c.byPath[c.files[i].Path] = int32(i)
	}
	c.starts = make([]int32, len(c.files)+1)
	for _, f := range numbers {
		c.starts[f+1]++
	}
	for i := range c.files {
		c.starts[i+1] += c.starts[i]
	}
	c.refs = make([]int32, len(numbers))
	at := slices.Clone(c.starts)
	next := 0
	for i := range c.artifacts {
		for range c.artifacts[i].Files {
			f := numbers[next]
			c.refs[at[f]] = int32(i)
			at[f]++
			next++
		}
	}
}

// covering calls visit with the numbers of the artifacts of an index that cover a path, in no order, until it gives false.
func (c *chunk) covering(index, path string, visit func(n int32) bool) {
	f, there := c.byPath[path]
	if !there {
		return
	}
	for ; int(f) < len(c.files) && c.files[f].Path == path; f++ {
		for _, n := range c.refs[c.starts[f]:c.starts[f+1]] {
			if c.artifacts[n].Index == index && !visit(n) {
				return
			}
		}
	}
}
