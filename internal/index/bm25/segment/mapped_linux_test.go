package segment_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// mapped is an artifact in a file.
type mapped struct{ *os.File }

func (m mapped) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	return m.ReadAt(p, off)
}

func (m mapped) Map(_ context.Context, off, length int64) ([]byte, func(), error) {
	page := int64(os.Getpagesize())
	skip := off % page
	b, err := syscall.Mmap(int(m.Fd()), off-skip, int(length+skip), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return b[skip:], func() { _ = syscall.Munmap(b) }, nil
}

// TestMappedFileIsCut: a segment is mapped and answers as one in memory; when its file is cut short, the answer is an error.
func TestMappedFileIsCut(t *testing.T) {
	defer segment.Guard(true)()
	rng := rand.New(rand.NewPCG(41, 11))
	s := shape{rows: 20000, fields: 1, vocabulary: 30000, length: 12, skew: 0.05, dense: 0.9}
	of := draw(rng, s)
	b := build(t, of, 0, s.rows, segment.Options{Fields: fields(1, true)})
	norms := modelOf(of, 0, s.rows, 1).norms(similarity.DefaultParams)
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := segment.Open(t.Context(), mapped{f}, int64(len(b)), segment.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q := want{terms: []string{"always", of[3][0][2].term}, fields: []int{0, 0}, weights: []float32{1, 2}, repeats: []int{1, 1}, slop: -1}
	got, want := collector(10, -1), collector(10, -1)
	ask(t, r, q, norms, nil, 0, got)
	ask(t, open(t, b, segment.OpenOptions{}), q, norms, nil, 0, want)
	if got.Hits != want.Hits || got.Top.Hits()[0] != want.Top.Hits()[0] {
		t.Fatalf("%v, want %v", got.Top.Hits(), want.Top.Hits())
	}
	terms, err := r.Lookup(t.Context(), 0, [][]byte{[]byte("always")})
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Postings(t.Context(), 0, terms[0], true)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	for c.Next() != posting.End {
		c.Freq()
		c.Positions()
	}
	if !errs.Is(c.Err(), errs.Corrupt) {
		t.Errorf("the cursor says %v", c.Err())
	}
	query := segment.Query{Clauses: []segment.Clause{{Term: terms[0], Weight: 1}}, Norms: norms}
	if err := r.Best(t.Context(), &query, nil, 0, collector(10, -1)); !errs.Is(err, errs.Corrupt) {
		t.Errorf("the search says %v", err)
	}
	if _, err := r.Lookup(t.Context(), 0, [][]byte{[]byte("always")}); !errs.Is(err, errs.Corrupt) {
		t.Errorf("the lookup says %v", err)
	}
	if err := r.Walk(t.Context(), 0, nil, func([]byte, posting.Term) ([]byte, bool) { return nil, true }); !errs.Is(err, errs.Corrupt) {
		t.Errorf("the walk says %v", err)
	}
}
