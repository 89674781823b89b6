package lake

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/budget"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake/avro"
)

// The tolerant reader of manifest lists and manifests.
//
// Fields are found by Iceberg field id, and by name where a writer left the ids out. Nothing is taken from the Avro
// header but the schema of the bytes: table schema and partition spec come from the table metadata, the kind of content
// from the manifest list, because ClickHouse, BigQuery and avro-tools leave the other keys out. Every field may be a
// nullable union. What is read is immutable and may be shared by any number of plans.
//
// Source of field ids: Apache Iceberg table specification, "Manifests" and "Manifest Lists", format versions 1 to 3.

// Bounds of what a manifest may hold in memory; decoded statistics are many times larger than their bytes.
const (
	maxStatsColumns = 100_000 // columns of one file
)

// The content kinds of a file.
const (
	contentData      = 0
	contentPositions = 1
	contentEquality  = 2
)

// manifestRef is one line of a manifest list.
type manifestRef struct {
	path       string
	length     int64
	specID     int  // -1 when only the manifest knows it
	deletes    bool // the manifest lists delete files
	sequence   int64
	snapshotID int64
	live       bool // it may hold live entries: added or existing files are not known to be zero
	files      int  // live entries, -1 when unknown
	encrypted  bool
	summaries  []fieldSummary // by position in the partition spec; nil when unknown
}

// fieldSummary bounds one partition field over all files of a manifest.
type fieldSummary struct {
	hasNull      bool
	hasNaN       int8 // 1 yes, 0 no, -1 unknown
	lower, upper []byte
}

// fileEntry is a live file of a manifest.
type fileEntry struct {
	content   int
	path      string
	key       string // path without scheme and authority: what paths are compared by
	format    string // upper case: PARQUET, ORC, AVRO, PUFFIN
	specID    int
	partition []partitionValue // by partition field id, ascending
	scope     string           // spec and partition tuple in one comparable text
	rows      int64
	size      int64
	sequence  int64
	stats     []columnBounds // by field id, ascending
	equality  []int          // field ids of an equality delete file
	encrypted bool

	// deletion vectors and file-scoped position deletes
	referenced    string // key of the data file, "" when not file-scoped
	contentOffset int64  // -1 when absent
	contentSize   int64  // -1 when absent
}

type partitionValue struct {
	id    int
	name  string
	value any // nil, bool, int64, float32, float64, string, []byte
}

// columnBounds is what a manifest says about one column of one file. Counts are -1 when unknown.
type columnBounds struct {
	id                  int
	values, nulls, nans int64
	lower, upper        []byte
}

// bounds returns what is known about a column, or nil.
func (e *fileEntry) bounds(id int) *columnBounds {
	i, ok := slices.BinarySearchFunc(e.stats, id, func(b columnBounds, id int) int { return cmp.Compare(b.id, id) })
	if !ok {
		return nil
	}
	return &e.stats[i]
}

func (e *fileEntry) partitionValue(id int) (any, bool) {
	for i := range e.partition {
		if e.partition[i].id == id {
			return e.partition[i].value, true
		}
	}
	return nil, false
}

// pathKey is a location without its scheme and authority and without doubled slashes: the form in which paths of one
// table are compared, since engines write hdfs://host/a, hdfs:/a and /a for one file.
func pathKey(location string) string {
	p := location
	if i := strings.Index(p, "://"); i > 0 && !strings.Contains(p[:i], "/") {
		p = p[i+3:]
		j := strings.IndexByte(p, '/')
		if j < 0 {
			return "/" // a whole bucket
		}
		p = p[j:]
	} else if i := strings.Index(p, ":/"); i > 0 && !strings.Contains(p[:i], "/") {
		p = p[i+1:]
	}
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	return p
}

var manifestListIDs = map[string]int{
	"manifest_path": 500, "manifest_length": 501, "partition_spec_id": 502, "added_snapshot_id": 503,
	"added_files_count": 504, "added_data_files_count": 504, "existing_files_count": 505, "existing_data_files_count": 505,
	"deleted_files_count": 506, "deleted_data_files_count": 506, "partitions": 507, "added_rows_count": 512,
	"existing_rows_count": 513, "deleted_rows_count": 514, "sequence_number": 515, "min_sequence_number": 516,
	"content": 517, "key_metadata": 519, "first_row_id": 520,
	"contains_null": 509, "lower_bound": 510, "upper_bound": 511, "contains_nan": 518,
}

var manifestIDs = map[string]int{
	"status": 0, "snapshot_id": 1, "data_file": 2, "sequence_number": 3, "file_sequence_number": 4,
	"content": 134, "file_path": 100, "file_format": 101, "partition": 102, "record_count": 103, "file_size_in_bytes": 104,
	"value_counts": 109, "null_value_counts": 110, "nan_value_counts": 137, "lower_bounds": 125, "upper_bounds": 128,
	"key_metadata": 131, "equality_ids": 135, "referenced_data_file": 143, "content_offset": 144, "content_size_in_bytes": 145,
}

func idOf(f *avro.Field, names map[string]int) int {
	if f.ID >= 0 {
		return f.ID
	}
	if id, ok := names[f.Name]; ok {
		return id
	}
	return -1
}

// readManifestList decodes a manifest list held in memory. Errors are Corrupt and name the file.
func readManifestList(name string, data []byte) ([]manifestRef, error) {
	var refs []manifestRef
	_, err := avro.Read(name, data, func(c *avro.Cursor, row *avro.Type) error {
		m := manifestRef{}
		added, existing := int64(-1), int64(-1)
		ok := c.Record(row, func(f *avro.Field) {
			switch idOf(f, manifestListIDs) {
			case 500:
				b, _ := c.Binary(f.Type)
				m.path = string(b)
			case 501:
				m.length, _ = c.Integer(f.Type)
			case 502:
				n, _ := c.Integer(f.Type)
				m.specID = int(n)
			case 503:
				m.snapshotID, _ = c.Integer(f.Type)
			case 504:
				added = c.IntegerOr(f.Type, -1)
			case 505:
				existing = c.IntegerOr(f.Type, -1)
			case 507:
				m.summaries = readSummaries(c, f.Type)
			case 515:
				m.sequence, _ = c.Integer(f.Type)
			case 517:
				n, _ := c.Integer(f.Type)
				m.deletes = n == 1
				if n != 0 && n != 1 {
					c.Fail("a manifest of unknown content %d", n)
				}
			case 519:
				b, _ := c.Binary(f.Type)
				m.encrypted = len(b) > 0
			default:
				c.Skip(f.Type)
			}
		})
		if !ok && c.Err() == nil || c.Err() == nil && m.path == "" {
			c.Fail("a line of the manifest list has no manifest path")
		}
		m.live = added != 0 || existing != 0
		if m.files = -1; added >= 0 && existing >= 0 && added+existing <= math.MaxInt32 {
			m.files = int(added + existing)
		}
		if c.Err() == nil {
			refs = append(refs, m)
		}
		return nil
	})
	return refs, err
}

func readSummaries(c *avro.Cursor, t *avro.Type) []fieldSummary {
	var out []fieldSummary
	c.Items(t, func(elem *avro.Type) {
		s := fieldSummary{hasNull: true, hasNaN: -1}
		c.Record(elem, func(f *avro.Field) {
			switch idOf(f, manifestListIDs) {
			case 509:
				s.hasNull = c.IntegerOr(f.Type, 1) != 0
			case 518:
				s.hasNaN = int8(c.IntegerOr(f.Type, -1))
			case 510:
				s.lower = c.Bound(f.Type)
			case 511:
				s.upper = c.Bound(f.Type)
			default:
				c.Skip(f.Type)
			}
		})
		out = append(out, s)
	})
	return out
}

// readManifest decodes the live entries of a manifest held in memory. Deleted entries are left out; sequence numbers
// are inherited from the manifest's line in the list as the specification says. What they take is reserved. Errors are Corrupt
// or Exhausted and name the file.
func readManifest(m *manifestRef, data []byte, held *budget.Reservation) ([]fileEntry, error) {
	var entries []fileEntry
	index := statsIndex{}
	memory := int64(0)
	meta, err := avro.Read(m.path, data, func(c *avro.Cursor, row *avro.Type) error {
		e := fileEntry{specID: m.specID, contentOffset: -1, contentSize: -1, content: -1, rows: -1, sequence: -1}
		clear(index)
		status := int64(-1)
		sequence, explicit, versioned := int64(0), false, false
		hasFile := false
		c.Record(row, func(f *avro.Field) {
			switch idOf(f, manifestIDs) {
			case 0:
				status = c.IntegerOr(f.Type, -1)
			case 2:
				hasFile = readDataFile(c, f.Type, &e, index)
			case 3:
				versioned = true
				sequence, explicit = c.Integer(f.Type)
			default:
				c.Skip(f.Type)
			}
		})
		if c.Err() != nil || status == 2 {
			return nil
		}
		switch {
		case status != 0 && status != 1:
			c.Fail("an entry of unknown status %d", status)
		case !hasFile || e.path == "":
			c.Fail("an entry without a file path")
		case e.rows < 0:
			c.Fail("%s has no row count", e.path)
		case e.content < 0 && m.deletes:
			c.Fail("%s is a delete file of unknown kind", e.path)
		case e.content > contentEquality || e.content == contentData && m.deletes:
			c.Fail("%s has unknown content %d", e.path, e.content)
		case e.content == contentEquality && len(e.equality) == 0:
			c.Fail("%s is an equality delete file without equality ids", e.path)
		case explicit && sequence >= 0:
			e.sequence = sequence
		case status == 1 || m.sequence == 0 || !versioned:
			e.sequence = max(m.sequence, 0)
			if status == 0 {
				e.sequence = 0
			}
		default:
			c.Fail("%s is an existing file without a sequence number", e.path)
		}
		if e.content < 0 {
			e.content = contentData
		}
		if c.Err() == nil {
			e.finish()
			entries = append(entries, e)
			memory += e.memory()
			if err := growTo(held, memory); err != nil {
				return errs.Wrap(errs.Exhausted, "lake.manifest", fmt.Errorf("the manifest does not fit into memory: %w", err), errs.On(m.path), errs.Hint("%s", errs.HintOf(err)))
			}
		}
		return nil
	})
	if m.specID < 0 { // listed by a V1 snapshot itself, so the manifest alone knows its spec
		spec, _ := strconv.Atoi(meta["partition-spec-id"])
		for i := range entries {
			entries[i].specID = spec
			entries[i].finish()
		}
	}
	return entries, err
}

// memory is about what an entry takes, in bytes.
func (e *fileEntry) memory() int64 {
	n := 400 + 3*int64(len(e.path)) + int64(len(e.partition))*64
	for _, b := range e.stats {
		n += 104 + int64(len(b.lower)+len(b.upper))
	}
	return n
}

// finish derives what plans compare by.
func (e *fileEntry) finish() {
	e.key = pathKey(e.path)
	slices.SortFunc(e.partition, func(a, b partitionValue) int { return cmp.Compare(a.id, b.id) })
	e.scope = scopeKey(e.specID, e.partition)
	slices.Sort(e.equality)
	slices.SortFunc(e.stats, func(a, b columnBounds) int { return cmp.Compare(a.id, b.id) })
	if e.content == contentPositions && e.referenced == "" {
		// A position delete file whose file_path column holds one value is scoped to that file. Equal bounds are exact
		// bounds: a truncated upper bound is always above the truncated lower one.
		if b := e.bounds(filePathID); b != nil && len(b.lower) > 0 && bytes.Equal(b.lower, b.upper) {
			e.referenced = pathKey(string(b.lower))
		}
	}
}

// scopeKey is one text for a partition spec and a tuple of values. Values of one field compare equal when their texts
// do: integers of both widths print alike, and floats by their bits.
func scopeKey(specID int, tuple []partitionValue) string {
	b := strconv.AppendInt(nil, int64(specID), 10)
	for _, p := range tuple {
		b = append(b, '|')
		switch v := p.value.(type) {
		case nil:
			b = append(b, '-')
		case string:
			b = strconv.AppendQuote(b, v)
		case []byte:
			b = fmt.Appendf(b, "x%x", v)
		case float32:
			b = strconv.AppendFloat(append(b, 'f'), float64(v), 'g', -1, 64)
		case float64:
			b = strconv.AppendFloat(append(b, 'f'), v, 'g', -1, 64)
		default:
			b = fmt.Append(b, v)
		}
	}
	return string(b)
}

func readDataFile(c *avro.Cursor, t *avro.Type, e *fileEntry, x statsIndex) bool {
	return c.Record(t, func(f *avro.Field) {
		switch idOf(f, manifestIDs) {
		case 134:
			e.content = int(c.IntegerOr(f.Type, -1))
		case 100:
			b, _ := c.Binary(f.Type)
			e.path = string(b)
		case 101:
			b, _ := c.Binary(f.Type)
			e.format = strings.ToUpper(string(b))
		case 102:
			i := 0
			c.Record(f.Type, func(p *avro.Field) {
				id := p.ID
				if id < 0 {
					id = -1 - i // resolved against the partition spec by position
				}
				e.partition = append(e.partition, partitionValue{id: id, name: p.Name, value: c.Value(p.Type)})
				i++
			})
		case 103:
			e.rows = c.IntegerOr(f.Type, -1)
		case 104:
			e.size, _ = c.Integer(f.Type)
		case 109:
			counts(c, f.Type, func(id int, n int64) { x.column(c, e, id).values = n })
		case 110:
			counts(c, f.Type, func(id int, n int64) { x.column(c, e, id).nulls = n })
		case 137:
			counts(c, f.Type, func(id int, n int64) { x.column(c, e, id).nans = n })
		case 125:
			pairs(c, f.Type, func(id int, v *avro.Type) { x.column(c, e, id).lower = c.Bound(v) })
		case 128:
			pairs(c, f.Type, func(id int, v *avro.Type) { x.column(c, e, id).upper = c.Bound(v) })
		case 131:
			b, _ := c.Binary(f.Type)
			e.encrypted = len(b) > 0
		case 135:
			c.Items(f.Type, func(elem *avro.Type) {
				n, _ := c.Integer(elem)
				e.equality = append(e.equality, int(n))
			})
		case 143:
			if b, ok := c.Binary(f.Type); ok && len(b) > 0 {
				e.referenced = pathKey(string(b))
			}
		case 144:
			e.contentOffset = c.IntegerOr(f.Type, -1)
		case 145:
			e.contentSize = c.IntegerOr(f.Type, -1)
		default:
			c.Skip(f.Type)
		}
	})
}

// statsIndex finds the statistics of a column while an entry is decoded.
type statsIndex map[int]int

func (x statsIndex) column(c *avro.Cursor, e *fileEntry, id int) *columnBounds {
	i, ok := x[id]
	if !ok {
		if len(e.stats) >= maxStatsColumns {
			c.Fail("a file has statistics of more than %d columns", maxStatsColumns)
			return &columnBounds{}
		}
		i = len(e.stats)
		x[id] = i
		e.stats = append(e.stats, columnBounds{id: id, values: -1, nulls: -1, nans: -1})
	}
	return &e.stats[i]
}

// pairs reads an Iceberg map with integer keys, which Avro stores as an array of key-value records.
func pairs(c *avro.Cursor, t *avro.Type, each func(id int, v *avro.Type)) {
	c.Items(t, func(elem *avro.Type) {
		id := int64(-1)
		c.Record(elem, func(f *avro.Field) {
			switch {
			case f.Name == "key":
				id, _ = c.Integer(f.Type)
			case f.Name == "value" && id >= 0:
				each(int(id), f.Type)
			default:
				c.Skip(f.Type)
			}
		})
	})
}

func counts(c *avro.Cursor, t *avro.Type, each func(id int, n int64)) {
	pairs(c, t, func(id int, v *avro.Type) {
		if n, ok := c.Integer(v); ok && n >= 0 {
			each(id, n)
		}
	})
}

// refuseEncrypted names what cannot be read because it is encrypted.
func refuseEncrypted(path string) error {
	return errs.New(errs.Unsupported, "lake.plan", "the file is encrypted (its manifest carries key metadata); encrypted tables are not supported",
		errs.On(path))
}
