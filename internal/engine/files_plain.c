// Where the linker cannot wrap system calls there is no table of virtual files; file_links.go takes its place.
#ifndef __linux__
#include "engine.h"

bool ov_file_add(const char *path, const char *real, bool writable, int64_t id, int64_t size) {
	(void)path, (void)real, (void)writable, (void)id, (void)size;
	return false;
}

void ov_file_remove(const char *path) { (void)path; }

int64_t ov_file_count(void) { return 0; }

#endif
