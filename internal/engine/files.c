// Virtual files: paths below a secret prefix stand for files that Go registered.
//
// The linker sends DuckDB's calls of open, access and __xstat here (see the flags in files.go). A registered path is
// replaced by the real one before the system call, so the returned descriptor is an ordinary file and reading it costs
// nothing extra; every other path goes through untouched. The table is written rarely and read on each open.
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct entry {
	char *path, *real;
	bool writable;
	struct entry *next;
} entry;

enum { BUCKETS = 1 << 14 };
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static entry *table[BUCKETS];

static const char prefix[] = "/.overlake-files/";

static uint64_t hash(const char *s) {
	uint64_t h = 1469598103934665603ULL;
	for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211ULL;
	return h;
}

bool ov_file_add(const char *path, const char *real, bool writable) {
	entry *e = malloc(sizeof *e);
	if (!e) return false;
	e->path = strdup(path);
	e->real = strdup(real);
	e->writable = writable;
	pthread_rwlock_wrlock(&lock);
	entry **b = &table[hash(path) % BUCKETS];
	e->next = *b;
	*b = e;
	pthread_rwlock_unlock(&lock);
	return e->path && e->real;
}

void ov_file_remove(const char *path) {
	pthread_rwlock_wrlock(&lock);
	entry **p = &table[hash(path) % BUCKETS];
	while (*p && strcmp((*p)->path, path)) p = &(*p)->next;
	entry *e = *p;
	if (e) *p = e->next;
	pthread_rwlock_unlock(&lock);
	if (e) {
		free(e->path);
		free(e->real);
		free(e);
	}
}

// resolve copies the real path of a virtual one. It returns 0 for a path that is none of ours, 1 for a registered one
// and -1 for an unknown one below the prefix.
static int resolve(const char *path, char *real, size_t n, bool *writable) {
	if (strncmp(path, prefix, sizeof prefix - 1)) return 0;
	int found = -1;
	pthread_rwlock_rdlock(&lock);
	for (entry *e = table[hash(path) % BUCKETS]; e; e = e->next) {
		if (strcmp(e->path, path)) continue;
		if (strlen(e->real) < n) {
			strcpy(real, e->real);
			*writable = e->writable;
			found = 1;
		}
		break;
	}
	pthread_rwlock_unlock(&lock);
	return found;
}

enum { LONGEST = 4096 };

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
	mode_t mode = 0;
	if (flags & O_CREAT) {
		va_list args;
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	char real[LONGEST];
	bool writable = false;
	switch (resolve(path, real, sizeof real, &writable)) {
	case 0:
		return __real_open(path, flags, mode);
	case 1:
		if ((flags & O_ACCMODE) != O_RDONLY && !writable) {
			errno = EACCES;
			return -1;
		}
		return __real_open(real, flags, mode);
	}
	errno = ENOENT;
	return -1;
}

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode) {
	char real[LONGEST];
	bool writable;
	switch (resolve(path, real, sizeof real, &writable)) {
	case 0:
		return __real_access(path, mode);
	case 1:
		return __real_access(real, mode);
	}
	errno = ENOENT;
	return -1;
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path) {
	char real[LONGEST];
	bool writable = false;
	switch (resolve(path, real, sizeof real, &writable)) {
	case 0:
		return __real_unlink(path);
	case 1:
		if (!writable) {
			errno = EACCES;
			return -1;
		}
		return __real_unlink(real);
	}
	errno = ENOENT;
	return -1;
}

int __real___xstat(int version, const char *path, struct stat *out);
int __wrap___xstat(int version, const char *path, struct stat *out) {
	char real[LONGEST];
	bool writable;
	switch (resolve(path, real, sizeof real, &writable)) {
	case 0:
		return __real___xstat(version, path, out);
	case 1:
		return __real___xstat(version, real, out);
	}
	errno = ENOENT;
	return -1;
}
