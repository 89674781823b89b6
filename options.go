package overlake

import (
	"time"
)

// defaultMemory is the MemoryLimit of the zero Options.
const defaultMemory = 1 << 30

// Options configure a DB. The zero value is usable: a writable file catalog in the warehouse, one gibibyte of memory for
// queries, all cores, and no place to export files to.
type Options struct {
	// ReadOnly opens the warehouse without any way to write: statements that write fail with KindDenied.
	ReadOnly bool

	// Catalog says how table names find their metadata: "" or "file" for Iceberg's directory layout with conditional
	// writes, "sqlite" for a SQL catalog in <warehouse>/catalog.db. A warehouse made with one is not read with the other.
	Catalog string

	// Namespace is the schema that unqualified names resolve in; "" means "main".
	Namespace string

	// MemoryLimit bounds the memory of queries in bytes; 0 means 1 GiB. Sorts, joins and aggregates that need more spill
	// to SpillDir. Manifests and delete files may take as much again while they are read, and caches of them half of it.
	// Allow 200 MB above for the process itself.
	MemoryLimit int64

	// Threads bounds the threads that run queries; 0 means one per core.
	Threads int

	// SpillDir takes the spill files of large queries; "" means a private temporary directory that Close removes.
	SpillDir string

	// SpillLimit bounds the bytes spilled; 0 means what the disk has.
	SpillLimit int64

	// MaxQueries bounds the queries that run at once, further ones wait; 0 means twice Threads.
	MaxQueries int

	// QueueTimeout bounds that wait; 0 means until the caller's context ends.
	QueueTimeout time.Duration

	// Export lists the directories that COPY ... TO may write into. None means that COPY TO is refused.
	Export []string

	// Quota bounds the bytes of a local or memory warehouse; 0 means none. A write that would exceed it fails with
	// KindExhausted and leaves the tables as they were.
	Quota int64

	// Overlay is the directory that the indexes of all tables lie in; "" means the warehouse itself. It may be another disk,
	// and for a warehouse that is read-only a place that can be written.
	Overlay string

	// IndexMemory bounds what one index build holds, in bytes; 0 means 256 MiB, and 1 GiB for vectors. What does not fit goes to temporary files in
	// SpillDir.
	IndexMemory int64

	// BoundGarbage keeps Go's collector from letting the process grow to twice of what a build of an index holds: while one runs, Go's
	// memory limit (debug.SetMemoryLimit) is what is held at its begin, IndexMemory, and 64 MiB. A limit that was set before, as by
	// GOMEMLIMIT, stays. It concerns the whole process, so a program with other work may want to leave it off.
	BoundGarbage bool

	// IndexCache bounds the opened parts of indexes that are kept for queries, in bytes; 0 means 128 MiB.
	IndexCache int64

	// IndexByHand keeps builds of indexes from beginning after commits: CREATE INDEX, REINDEX and BuildIndexes build, and files
	// that were written since are scanned.
	IndexByHand bool

	// Events is told what no call fails for: indexes found damaged, files that could not be indexed. It is called from
	// several goroutines; nil ignores events.
	Events func(Event)
}
