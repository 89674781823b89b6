package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/overlakedb/overlake/internal/objstore"
)

const (
	hintName  = "version-hint.text"
	chunksDir = "chunks/"

	headFormat = 1
)

// head is a version as it is stored: {"crc32c":"…","overlay":…}, where the checksum is of the bytes of the second member.
type head struct {
	Format      int          `json:"format"`
	Version     int64        `json:"version"`
	ID          string       `json:"id"`               // of this write: no two heads have equal bytes
	Parent      string       `json:"parent,omitempty"` // id of the version that this one was made from
	Written     time.Time    `json:"written"`          // for people; nothing depends on it
	Definitions []Definition `json:"definitions"`
	Chunks      []chunkRef   `json:"chunks"` // oldest first
}

// chunkRef names a chunk.
type chunkRef struct {
	Name      string  `json:"name"` // below the prefix
	Size      int64   `json:"size"`
	CRC32C    string  `json:"crc32c"`
	Artifacts int     `json:"artifacts"`
	Dead      []int32 `json:"dead,omitempty"` // pairs [from, to) of numbers of artifacts that are gone, ascending
}

const (
	headBegin = `{"crc32c":"`
	headThen  = `","overlay":`
	headEnd   = "}\n"
)

func encodeHead(h *head) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(h); err != nil {
		return nil, err
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	return slices.Concat([]byte(headBegin), []byte(manifestSum(body)), []byte(headThen), body, []byte(headEnd)), nil
}

// errHeadFormat is about heads of a later version of this program.
var errHeadFormat = errors.New("its format is not known")

// decodeHead reads the head of a version.
func decodeHead(b []byte, number int64) (*head, error) {
	rest, ok := bytes.CutPrefix(b, []byte(headBegin))
	if !ok || len(rest) < 8 {
		return nil, errors.New("it does not begin as a version of an overlay")
	}
	sum := string(rest[:8])
	body, begins := bytes.CutPrefix(rest[8:], []byte(headThen))
	body, ends := bytes.CutSuffix(body, []byte(headEnd))
	if !begins || !ends {
		return nil, errors.New("it is not all of a version of an overlay")
	}
	if have := manifestSum(body); have != sum {
		return nil, fmt.Errorf("it fails its checksum: %s, it says %q", have, sum)
	}
	var probe struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(body, &probe); err != nil {
		return nil, err
	}
	if probe.Format != headFormat {
		return nil, fmt.Errorf("%w: %d", errHeadFormat, probe.Format)
	}
	var h head
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, err
	}
	switch {
	case h.Version != number:
		return nil, fmt.Errorf("it is version %d under the name of version %d", h.Version, number)
	case len(h.Definitions) > maxDefinitions || len(h.Chunks) > maxChunks:
		return nil, errors.New("it names more than a version may")
	}
	ids := map[string]bool{}
	for i := range h.Definitions {
		if err := h.Definitions[i].check(); err != nil {
			return nil, err
		}
		if ids[h.Definitions[i].ID] {
			return nil, fmt.Errorf("it defines %.64q twice", h.Definitions[i].ID)
		}
		ids[h.Definitions[i].ID] = true
	}
	for i := range h.Chunks {
		if err := h.Chunks[i].check(); err != nil {
			return nil, fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	return &h, nil
}

func (c *chunkRef) check() error {
	switch {
	case !strings.HasPrefix(c.Name, chunksDir) || len(c.Name) > 256 || objstore.CheckName(c.Name) != nil:
		return fmt.Errorf("%.64q is no name of a chunk", c.Name)
	case c.Size < 0 || c.Size > maxChunk:
		return fmt.Errorf("it has %d bytes", c.Size)
	case c.Artifacts < 0 || c.Artifacts > maxArtifacts:
		return fmt.Errorf("it has %d artifacts", c.Artifacts)
	case len(c.Dead)%2 != 0:
		return errors.New("a range of dead artifacts has no end")
	}
	for i, n := range c.Dead {
		if n < 0 || int(n) > c.Artifacts || i > 0 && n <= c.Dead[i-1] {
			return errors.New("its ranges of dead artifacts are not ascending")
		}
	}
	return nil
}

// versionOf is the number in the name vN.json; 0 for other names.
func versionOf(name string) int64 {
	s, isV := strings.CutPrefix(name, "v")
	s, isJSON := strings.CutSuffix(s, ".json")
	n, err := strconv.ParseInt(s, 10, 64)
	if !isV || !isJSON || err != nil || n < 1 || strconv.FormatInt(n, 10) != s {
		return 0
	}
	return n
}

func versionName(n int64) string { return fmt.Sprintf("v%d.json", n) }

// chunkVersion is the version that a chunk was written for, as its name says; false for other names.
func chunkVersion(name string) (int64, bool) {
	s, isChunk := strings.CutPrefix(name, chunksDir+"v")
	s, _, dashed := strings.Cut(s, "-")
	n, err := strconv.ParseInt(s, 10, 64)
	return n, isChunk && dashed && err == nil && n > 0 && path.Dir(name)+"/" == chunksDir
}

// deadSet is the numbers of the artifacts of a chunk that are gone. It is not changed once a version has it.
type deadSet struct {
	words []uint64
	n     int
}

func (d deadSet) has(i int32) bool {
	return int(i>>6) < len(d.words) && d.words[i>>6]&(1<<(i&63)) != 0
}

// add gives the set with more numbers, below size.
func (d deadSet) add(size int, more []int32) deadSet {
	if len(more) == 0 {
		return d
	}
	out := deadSet{words: make([]uint64, (size+63)/64)}
	copy(out.words, d.words)
	for _, i := range more {
		out.words[i>>6] |= 1 << (i & 63)
	}
	for _, w := range out.words {
		out.n += bits.OnesCount64(w)
	}
	return out
}

// ranges and deadRanges turn the set into what a head keeps and back.
func (d deadSet) ranges(size int) []int32 {
	var out []int32
	in := false
	for i := range int32(size) {
		if d.has(i) != in {
			out = append(out, i)
			in = !in
		}
	}
	if in {
		out = append(out, int32(size))
	}
	return out
}

func deadRanges(size int, ranges []int32) deadSet {
	var all []int32
	for i := 0; i+1 < len(ranges); i += 2 {
		for n := ranges[i]; n < ranges[i+1]; n++ {
			all = append(all, n)
		}
	}
	return deadSet{}.add(size, all)
}
