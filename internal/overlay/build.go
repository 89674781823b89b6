package overlay

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/puffin"
)

// A build goes over the data files of the current snapshot that some index does not cover, in groups: large files alone,
// small ones together. For each group it
//
//  1. claims the group, so that other builders take another one;
//  2. reads the columns once and makes the artifacts of all indexes that miss the group, into a bundle;
//  3. looks whether the files are still those that it began with;
//  4. when the bundle is large or old enough: ends it, reads it back, and publishes a version that names its artifacts.
//
// A build that dies loses what it has not published; the next one goes on from there.

const (
	groupRows   = 1 << 20          // files are grouped up to so many rows
	groupFiles  = 4096             // and so many files
	bundleBytes = 512 << 20        // a bundle ends when it is larger
	bundleTime  = 20 * time.Second // or older, so that queries gain and a crash loses little
)

// Progress tells how far a build is.
type Progress struct {
	Files, FilesDone int   // data files that some index did not cover
	Rows, RowsDone   int64 // of these files
	Bytes            int64 // of artifacts so far
	// Vectors are those that the index at work is to hold, once all of them were read; VectorsDone found their place in it.
	Vectors, VectorsDone int64
}

// BuildOptions of one build. The zero value builds all indexes.
type BuildOptions struct {
	Only     []string       // names of indexes; nil: all
	Anew     bool           // also what is covered
	Progress func(Progress) // called now and then, from one goroutine
}

// Report is what a build did.
type Report struct {
	Progress
	Elsewhere int // files that another builder was at work on
	Skipped   int // files that changed, or could not be read, while they were indexed
}

// missingFile is a data file with the indexes that do not cover it.
type missingFile struct {
	file *lake.DataFile
	key  FileKey
	defs []int
}

// Build makes the artifacts that indexes lack for the current snapshot. Files that another process is building are left
// to it and counted. Damage of single files is an event and counted; the error of the first such file is given at the end.
func (o *Overlay) Build(ctx context.Context, t *lake.Table, opts BuildOptions) (Report, error) {
	if err := o.writable(); err != nil {
		return Report{}, err
	}
	b := &build{o: o, t: t, opts: opts}
	err := b.run(ctx)
	return b.report, err
}

type build struct {
	o      *Overlay
	t      *lake.Table
	opts   BuildOptions
	schema *arrow.Schema
	defs   []Definition
	prints []string // fingerprints of defs
	report Report
	first  error // of a file that could not be indexed

	bundle *bundle
}

func (b *build) run(ctx context.Context) error {
	t, err := b.t.Refresh(ctx)
	if err != nil {
		return err
	}
	b.t = t
	v, err := b.o.version(ctx)
	if err != nil {
		return err
	}
	plan, err := t.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return err
	}
	b.schema = plan.Schema
	for _, d := range v.Definitions() {
		if b.opts.Only != nil && !slices.ContainsFunc(b.opts.Only, func(n string) bool { return strings.EqualFold(n, d.Name) }) {
			continue
		}
		if print, ok := fingerprint(&d, b.schema); ok { // else a column of it was dropped
			b.defs, b.prints = append(b.defs, d), append(b.prints, print)
		}
	}
	for _, name := range b.opts.Only {
		if _, ok := find(v, name); !ok {
			return missing(name)
		}
	}
	if len(b.defs) == 0 {
		return nil
	}
	todo, err := b.missing(ctx, v, plan)
	if err != nil {
		return err
	}
	b.report.Files = len(todo)
	for i := range todo {
		b.report.Rows += todo[i].file.Rows
	}
	b.tell()
	defer func() { b.bundle.abort() }()
	for _, g := range groups(todo) {
		if err := ctx.Err(); err != nil {
			return errs.Wrap(errs.Canceled, "overlay.build", err)
		}
		if err := b.group(ctx, g); err != nil {
			return err
		}
	}
	if err := b.publish(ctx); err != nil {
		return err
	}
	return b.first
}

func (b *build) tell() {
	if b.opts.Progress != nil {
		b.opts.Progress(b.report.Progress)
	}
}

// missing lists the files that some index does not cover, with their identity.
func (b *build) missing(ctx context.Context, v *Version, plan *lake.Plan) ([]missingFile, error) {
	var out []missingFile
	for i := range plan.Files {
		f := &plan.Files[i]
		key, err := keyOf(ctx, f)
		if err != nil {
			if errs.Is(err, errs.Canceled) {
				return nil, err
			}
			b.skip(f, err)
			continue
		}
		m := missingFile{file: f, key: key}
		for d := range b.defs {
			if b.opts.Anew || !b.covered(v, &m, d) {
				m.defs = append(m.defs, d)
			}
		}
		if m.defs != nil {
			out = append(out, m)
		}
	}
	return out, nil
}

// keyOf asks the store what a data file is now.
func keyOf(ctx context.Context, f *lake.DataFile) (FileKey, error) {
	info, err := f.Store.Stat(ctx, f.Name)
	if err != nil {
		return FileKey{}, err
	}
	return FileKey{Path: f.Path, Size: info.Size, ETag: info.ETag, Rows: f.Rows}, nil
}

// skip notes a file that cannot be indexed: a build does what it can.
func (b *build) skip(f *lake.DataFile, err error) {
	b.report.Skipped++
	b.o.event(Event{Object: f.Path, What: "the data file could not be indexed", Err: err})
	if b.first == nil {
		b.first = err
	}
}

// groups puts files together that lack the same indexes.
func groups(todo []missingFile) [][]missingFile {
	var out [][]missingFile
	open := map[string]int{}
	rows := map[int]int64{}
	for _, m := range todo {
		k := fmt.Sprint(m.defs)
		at, ok := open[k]
		if !ok || rows[at]+m.file.Rows > groupRows || len(out[at]) == groupFiles {
			at = len(out)
			out = append(out, nil)
			open[k] = at
		}
		out[at] = append(out[at], m)
		rows[at] += m.file.Rows
	}
	return out
}

// group indexes the files of a group.
func (b *build) group(ctx context.Context, g []missingFile) error {
	ids := make([]string, len(g[0].defs))
	for i, d := range g[0].defs {
		ids[i] = b.defs[d].ID
	}
	c, err := b.o.claim(ctx, ids, g)
	if err != nil {
		return err
	}
	if c == nil {
		b.report.Elsewhere += len(g)
		return nil
	}
	if g, err = b.still(ctx, g); err != nil || len(g) == 0 {
		c.release()
		return err
	}
	bu, err := b.openBundle(ctx)
	if err != nil {
		c.release()
		return err
	}
	bu.claims = append(bu.claims, c)
	left, err := b.artifacts(ctx, bu, g, g[0].defs)
	if err == nil {
		err = b.rest(ctx, bu, left)
	}
	if err != nil {
		return err
	}
	b.report.FilesDone += len(g)
	b.report.Vectors, b.report.VectorsDone = 0, 0
	b.report.Bytes = bu.base + bu.w.Offset()
	b.tell()
	if bu.w.Offset() >= bundleBytes || time.Since(bu.begun) >= bundleTime {
		return b.publish(ctx)
	}
	return nil
}

// still leaves out the files that another builder has covered since they were found missing: it may have given its claim
// back just now.
func (b *build) still(ctx context.Context, g []missingFile) ([]missingFile, error) {
	if b.opts.Anew {
		return g, nil
	}
	v, err := b.o.version(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(g), func(m missingFile) bool {
		return !slices.ContainsFunc(m.defs, func(d int) bool { return !b.covered(v, &m, d) })
	}), nil
}

// covered tells whether an index covers a file by an artifact that is not known to be damaged.
func (b *build) covered(v *Version, m *missingFile, d int) bool {
	a, ok := v.Artifact(b.defs[d].ID, m.file.Path)
	return ok && a.covers(m.key, b.prints[d]) && !b.o.set.cache.isBad(a)
}

// artifacts reads the files of a group and writes an artifact for each index that misses them. left are the files that single
// indexes did not take, by the place of the definition.
func (b *build) artifacts(ctx context.Context, bu *bundle, g []missingFile, defs []int) (left map[int][]missingFile, err error) {
	var names []string
	var makers []*maker
	defer func() {
		for _, m := range makers {
			m.close()
		}
	}()
	total := int64(0)
	for i := range g {
		total += g[i].file.Rows
	}
	if holds := b.o.set.opts.Holds; holds != nil {
		most := b.o.set.opts.Memory
		if slices.ContainsFunc(defs, func(d int) bool { return OfVectors(b.defs[d].Kind) }) {
			most = b.o.set.vectorMemory
		}
		defer holds(most)()
	}
	for _, d := range defs {
		m, err := b.maker(d, len(defs), total, &names)
		if err != nil {
			return nil, err
		}
		makers = append(makers, m)
	}
	// renew begins a maker anew, which holds nothing that is covered.
	renew := func(k int, left []missingFile) error {
		m := makers[k]
		anew, err := b.maker(m.def, len(defs), total, &names)
		if err != nil {
			return err
		}
		anew.left, anew.why, makers[k] = left, m.why, anew
		return m.close()
	}
	// again are the files that a maker holds, to be taken by another.
	again := func(m *maker) []missingFile {
		for _, c := range m.covered {
			m.left = append(m.left, g[slices.IndexFunc(g, func(f missingFile) bool { return f.key.Path == c.Path })])
		}
		return m.left
	}
	next := int64(0)
	for i := range g {
		f := g[i].file
		rows, err := b.file(ctx, f, next, names, makers)
		if err != nil {
			if errs.Is(err, errs.Canceled) || errs.Is(err, errs.Exhausted) {
				return nil, err
			}
			// What was added of it is part of no covered file. The rows of the next one must not be taken for them.
			b.skip(f, err)
			for k, m := range makers {
				if m.took() != nil && m.spoils {
					if err := renew(k, again(m)); err != nil {
						return nil, err
					}
				}
			}
			next += f.Rows
			continue
		}
		for k, m := range makers {
			if err := m.took(); err != nil {
				switch {
				case m.spoils:
					b.cannot(m.def, g[i:i+1], err)
					err = renew(k, again(m))
				case len(m.covered) == 0: // what it holds, it holds of no file that is covered
					m.why = err
					err = renew(k, append(m.left, g[i]))
				default:
					m.left, m.why = append(m.left, g[i]), err
					err = nil
				}
				if err != nil {
					return nil, err
				}
				continue
			}
			m.covered = append(m.covered, CoveredFile{FileKey: g[i].key, Base: next})
		}
		next += rows
	}
	for i := range g {
		now, err := keyOf(ctx, g[i].file)
		if err != nil || now != g[i].key {
			if errs.Is(err, errs.Canceled) {
				return nil, err
			}
			gone := false
			for _, m := range makers {
				at := slices.IndexFunc(m.covered, func(c CoveredFile) bool { return c.Path == g[i].key.Path })
				if at >= 0 {
					m.covered, gone = slices.Delete(m.covered, at, at+1), true
				}
			}
			if gone {
				b.skip(g[i].file, errs.New(errs.Conflict, "overlay.build", "the data file was replaced while it was indexed", errs.On(g[i].file.Path)))
			}
		}
	}
	for _, m := range makers {
		err := m.why
		if len(m.covered) > 0 || m.spoils {
			err = nil
			if m.fits != nil {
				err = m.fits()
			}
			if len(m.left) > 0 && err == nil {
				if left == nil {
					left = map[int][]missingFile{}
				}
				left[m.def] = m.left
			}
		}
		if err != nil { // the other indexes need not wait for it
			b.cannot(m.def, m.left, err)
			continue
		}
		if len(m.covered) == 0 {
			continue
		}
		a := Artifact{Index: b.defs[m.def].ID, Fingerprint: b.prints[m.def], Files: m.covered, Type: m.kind, Rows: next}
		if err := bu.add(ctx, m, &a, b.defs[m.def].Columns); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// mostRounds bounds how often the files that an index did not take together with others are tried by themselves: vectors of many
// dimensions in one column are not what anybody searches.
const mostRounds = 8

// rest tries the files again that an index did not take together with those before them.
func (b *build) rest(ctx context.Context, bu *bundle, left map[int][]missingFile) error {
	done := b.report.RowsDone
	defer func() { b.report.RowsDone = done }()
	for round := 1; len(left) > 0; round++ {
		next := map[int][]missingFile{}
		for d, files := range left {
			if round > mostRounds {
				b.cannot(d, files, errs.New(errs.Unsupported, "overlay.build", "the vectors of a column have too many numbers of dimensions", errs.On(b.defs[d].Name)))
				continue
			}
			more, err := b.artifacts(ctx, bu, files, []int{d})
			if err != nil {
				return err
			}
			if len(more[d]) > 0 {
				next[d] = more[d]
			}
		}
		left = next
	}
	return nil
}

// cannot notes that an index cannot be built over files.
func (b *build) cannot(d int, files []missingFile, err error) {
	object := ""
	if len(files) > 0 {
		object = files[0].file.Path
	}
	b.report.Skipped += len(files)
	b.o.event(Event{Index: b.defs[d].Name, Object: object, What: "the index could not be built", Err: err})
	if b.first == nil {
		b.first = errs.With(err, errs.On(b.defs[d].Name))
	}
}

// file feeds one data file, deleted rows included: an artifact is valid whatever is deleted later.
func (b *build) file(ctx context.Context, f *lake.DataFile, base int64, names []string, makers []*maker) (int64, error) {
	r, err := b.t.ReadFile(ctx, f, names, lake.Ref{}, false)
	if err != nil {
		return 0, err
	}
	defer r.Release()
	at := int64(0)
	for r.Next() {
		rec := r.RecordBatch()
		for _, m := range makers {
			cols := make([]arrow.Array, len(m.columns))
			for i, c := range m.columns {
				cols[i] = rec.Column(c)
			}
			if err := m.add(ctx, base+at, cols); err != nil {
				return at, err
			}
		}
		at += rec.NumRows()
		b.report.RowsDone += rec.NumRows()
		if at%(1<<18) < rec.NumRows() {
			b.tell()
		}
	}
	if err := r.Err(); err != nil {
		return at, err
	}
	if at != f.Rows {
		return at, errs.With(errs.Newf(errs.Corrupt, "overlay.build", "the file gave %d rows, its manifest says %d", at, f.Rows), errs.On(f.Path))
	}
	return at, nil
}

// spill makes a temporary file for a builder.
func (o *Overlay) spill() (*os.File, error) {
	f, err := os.CreateTemp(o.set.opts.SpillDir, "overlake-index-*")
	if err != nil {
		return nil, errs.Wrap(errs.Exhausted, "overlay.build", err, errs.Hint("an index build needs room for temporary files"))
	}
	// Gone as soon as it is closed, also when the process dies.
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, errs.Wrap(errs.Unavailable, "overlay.build", err)
	}
	return f, nil
}

// bundle is a Puffin file at work.
type bundle struct {
	name   string
	out    objstore.Writer
	w      *puffin.Writer
	begun  time.Time
	base   int64 // bytes of the bundles before
	made   []Artifact
	claims []*claim
}

func (b *build) openBundle(ctx context.Context) (*bundle, error) {
	if b.bundle != nil {
		return b.bundle, nil
	}
	name := b.o.prefix + "/bundles/" + uuid.NewString() + ".puffin"
	out, err := b.o.set.write.Create(ctx, name, objstore.Condition{IfAbsent: true})
	if err != nil {
		return nil, err
	}
	w, err := puffin.NewWriter(out, puffin.WriterOptions{Properties: map[string]string{puffin.CreatedBy: "overlake"}})
	if err != nil {
		out.Abort()
		return nil, err
	}
	b.bundle = &bundle{name: name, out: out, w: w, begun: time.Now(), base: b.report.Bytes}
	return b.bundle, nil
}

func (bu *bundle) abort() {
	if bu == nil {
		return
	}
	bu.out.Abort()
	for _, c := range bu.claims {
		c.release()
	}
}

// add ends a builder into the bundle.
func (bu *bundle) add(ctx context.Context, m *maker, a *Artifact, fields []int) error {
	ids := make([]int32, len(fields))
	for i, id := range fields {
		ids[i] = int32(id)
	}
	out, err := bu.w.Create(puffin.BlobSpec{Type: m.kind, Fields: ids, SnapshotID: -1, SequenceNumber: -1, Align: m.align})
	if err != nil {
		return err
	}
	if a.Nulls, a.Distinct, err = m.finish(ctx, out, a.Rows); err != nil {
		return err
	}
	blob, err := out.Close()
	if err != nil {
		return err
	}
	a.Bundle, a.Offset, a.Length, a.CRC = bu.name, blob.Offset, blob.Length, blob.Properties[puffin.PropertyCRC32C]
	bu.made = append(bu.made, *a)
	return nil
}

// publish ends the bundle, reads it back, and makes its artifacts part of a new version.
func (b *build) publish(ctx context.Context) error {
	bu := b.bundle
	if bu == nil {
		return nil
	}
	defer func() {
		for _, c := range bu.claims {
			c.release()
		}
	}()
	if len(bu.made) == 0 {
		b.bundle = nil
		return bu.out.Abort()
	}
	if _, err := bu.w.Close(); err != nil {
		return err
	}
	info, err := bu.out.Commit(ctx)
	if err != nil {
		return err
	}
	b.bundle = nil
	if err := b.o.verify(ctx, info, bu.made); err != nil {
		b.o.set.write.Delete(context.WithoutCancel(ctx), bu.name)
		return err
	}
	_, err = b.o.chain.Update(ctx, b.o.set.write, func(v *Version) (Edit, error) {
		var e Edit
		for _, a := range bu.made {
			if slices.ContainsFunc(v.Definitions(), func(d Definition) bool { return d.ID == a.Index }) { // else dropped meanwhile
				e.AddArtifacts = append(e.AddArtifacts, a)
			}
		}
		return e, nil
	})
	return err
}

// verify reads a bundle back: the Puffin footer lists what was made, and the bytes of every artifact have their sum.
func (o *Overlay) verify(ctx context.Context, info objstore.Info, made []Artifact) error {
	bad := func(format string, args ...any) error {
		return errs.With(errs.Newf(errs.Corrupt, "overlay.verify", format, args...), errs.On(info.Name))
	}
	obj, err := o.set.store.Open(ctx, info.Name)
	if err != nil {
		return err
	}
	defer obj.Close()
	p, err := puffin.Open(ctx, puffin.Object(obj), obj.Size(), puffin.ReaderOptions{})
	if err != nil {
		return err
	}
	blobs := p.Footer().Blobs
	if len(blobs) != len(made) {
		return bad("the bundle has %d artifacts, %d were written", len(blobs), len(made))
	}
	for i := range made {
		a := &made[i]
		if blobs[i].Offset != a.Offset || blobs[i].Length != a.Length || blobs[i].Type != a.Type {
			return bad("artifact %d lies elsewhere than it was written", i)
		}
		if err := checkSum(ctx, obj, a); err != nil {
			return err
		}
	}
	return nil
}

// checkSum reads an artifact to its end.
func checkSum(ctx context.Context, obj objstore.Object, a *Artifact) error {
	if a.Offset < 0 || a.Length < 0 || a.Offset > obj.Size()-a.Length {
		return errs.New(errs.Corrupt, "overlay.verify", "the bundle is shorter than its artifacts", errs.On(a.Bundle))
	}
	buf := make([]byte, min(a.Length, 1<<20))
	crc := uint32(0)
	for at := int64(0); at < a.Length; {
		n := min(a.Length-at, int64(len(buf)))
		if _, err := objstore.ReadAt(ctx, obj, buf[:n], a.Offset+at); err != nil && err != io.EOF {
			return errs.With(err, errs.On(a.Bundle))
		}
		crc = checksum.Update(crc, buf[:n])
		at += n
	}
	if got := fmt.Sprintf("%08x", crc); got != a.CRC {
		return errs.With(errs.Newf(errs.Corrupt, "overlay.verify", "the artifact at %d has the checksum %s, the manifest says %s", a.Offset, got, a.CRC), errs.On(a.Bundle))
	}
	return nil
}

// sorted gives the names of definitions in a stable order.
func sorted(defs []Definition) []Definition {
	out := slices.Clone(defs)
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
