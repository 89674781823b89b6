// Virtual files: paths below a secret prefix stand for files that Go registered.
//
// The linker sends DuckDB's calls of open, access, unlink, __xstat, pread, read and close here (see the flags in
// engine.go). The path of a local file is replaced by the real one before the system call, so the descriptor is an
// ordinary one and reading costs nothing extra. Any other file gets a descriptor of an empty memory file of its size, so
// that fstat and lseek work, and reads of it go to Go. Everything else goes through untouched: one comparison for a path,
// one load for a descriptor. The table is written rarely and read on each open.
//
// Where this is not linked in (another system, DuckDB as a shared library), a self-test at start finds out and
// file_links.go takes over.
#ifdef __linux__
#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "_cgo_export.h"

typedef struct entry {
	char *path, *real; // real is NULL for a file that Go reads
	int64_t id, size;  // of a file that Go reads
	bool writable;
	struct entry *next;
} entry;

enum { BUCKETS = 1 << 14, DESCRIPTORS = 1 << 16 };
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static entry *table[BUCKETS];
static atomic_llong entries;
static _Atomic int64_t served[DESCRIPTORS]; // the id of the Go file behind a descriptor; 0: an ordinary one

static const char prefix[] = "/.overlake-files/";

static uint64_t hash(const char *s) {
	uint64_t h = 1469598103934665603ULL;
	for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211ULL;
	return h;
}

static void entry_free(entry *e) {
	free(e->path);
	free(e->real);
	free(e);
}

bool ov_file_add(const char *path, const char *real, bool writable, int64_t id, int64_t size) {
	entry *e = calloc(1, sizeof *e);
	if (!e) return false;
	e->path = strdup(path);
	e->real = real ? strdup(real) : NULL;
	if (!e->path || (real && !e->real)) {
		entry_free(e);
		return false;
	}
	e->id = id;
	e->size = size;
	e->writable = writable;
	pthread_rwlock_wrlock(&lock);
	entry **b = &table[hash(path) % BUCKETS];
	e->next = *b;
	*b = e;
	pthread_rwlock_unlock(&lock);
	atomic_fetch_add(&entries, 1);
	return true;
}

void ov_file_remove(const char *path) {
	pthread_rwlock_wrlock(&lock);
	entry **p = &table[hash(path) % BUCKETS];
	while (*p && strcmp((*p)->path, path)) p = &(*p)->next;
	entry *e = *p;
	if (e) *p = e->next;
	pthread_rwlock_unlock(&lock);
	if (e) {
		entry_free(e);
		atomic_fetch_sub(&entries, 1);
	}
}

int64_t ov_file_count(void) { return atomic_load(&entries); }

enum { LONGEST = 4096 };

// What a path stands for.
typedef struct {
	char real[LONGEST];
	bool writable;
	int64_t id, size;
} target;

enum { NOT_OURS, UNKNOWN, LOCAL, SERVED };

static int resolve(const char *path, target *t) {
	if (!path || strncmp(path, prefix, sizeof prefix - 1)) return NOT_OURS;
	int found = UNKNOWN;
	pthread_rwlock_rdlock(&lock);
	for (entry *e = table[hash(path) % BUCKETS]; e; e = e->next) {
		if (strcmp(e->path, path)) continue;
		t->writable = e->writable;
		t->id = e->id;
		t->size = e->size;
		if (!e->real) {
			found = SERVED;
		} else if (strlen(e->real) < sizeof t->real) {
			strcpy(t->real, e->real);
			found = LOCAL;
		}
		break;
	}
	pthread_rwlock_unlock(&lock);
	return found;
}

static int fail(int code) {
	errno = code;
	return -1;
}

int __real_close(int fd);

static int serve(const target *t) {
	int fd = memfd_create("overlake", MFD_CLOEXEC);
	if (fd < 0) return -1;
	if (fd >= DESCRIPTORS || ftruncate(fd, t->size)) {
		int code = fd >= DESCRIPTORS ? EMFILE : errno;
		__real_close(fd);
		return fail(code);
	}
	if (!ovFileOpen(t->id)) { // released a moment ago
		__real_close(fd);
		return fail(ENOENT);
	}
	atomic_store(&served[fd], t->id);
	return fd;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
	mode_t mode = 0;
	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_list args;
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	target t;
	int kind = resolve(path, &t);
	if (kind == NOT_OURS) return __real_open(path, flags, mode);
	if (kind == UNKNOWN) return fail(ENOENT);
	if (((flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC)) && !t.writable) return fail(EACCES);
	return kind == LOCAL ? __real_open(t.real, flags, mode) : serve(&t);
}

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode) {
	target t;
	switch (resolve(path, &t)) {
	case NOT_OURS:
		return __real_access(path, mode);
	case LOCAL:
		return __real_access(t.real, mode);
	case SERVED:
		return mode & (W_OK | X_OK) ? fail(EACCES) : 0;
	}
	return fail(ENOENT);
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path) {
	target t;
	int kind = resolve(path, &t);
	if (kind == NOT_OURS) return __real_unlink(path);
	if (kind == UNKNOWN) return fail(ENOENT);
	return t.writable ? __real_unlink(t.real) : fail(EACCES);
}

int __real___xstat(int version, const char *path, struct stat *out);
int __wrap___xstat(int version, const char *path, struct stat *out) {
	target t;
	switch (resolve(path, &t)) {
	case NOT_OURS:
		return __real___xstat(version, path, out);
	case LOCAL:
		return __real___xstat(version, t.real, out);
	case SERVED:
		memset(out, 0, sizeof *out);
		out->st_mode = S_IFREG | 0400;
		out->st_nlink = 1;
		out->st_size = t.size;
		out->st_blksize = 4096;
		return 0;
	}
	return fail(ENOENT);
}

static int64_t served_by(int fd) { return fd >= 0 && fd < DESCRIPTORS ? atomic_load_explicit(&served[fd], memory_order_acquire) : 0; }

static ssize_t read_served(int64_t id, void *to, size_t n, off_t at) {
	int64_t got = ovFileRead(id, to, (int64_t)n, (int64_t)at);
	return got < 0 ? fail((int)-got) : (ssize_t)got;
}

ssize_t __real_pread(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at) {
	int64_t id = served_by(fd);
	return id ? read_served(id, to, n, at) : __real_pread(fd, to, n, at);
}

ssize_t __real_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n) {
	int64_t id = served_by(fd);
	if (!id) return __real_read(fd, to, n);
	off_t at = lseek(fd, 0, SEEK_CUR);
	ssize_t got = read_served(id, to, n, at);
	if (got > 0) lseek(fd, at + got, SEEK_SET);
	return got;
}

int __wrap_close(int fd) {
	if (served_by(fd)) {
		int64_t id = atomic_exchange(&served[fd], 0);
		if (id) ovFileClose(id);
	}
	return __real_close(fd);
}

#endif
