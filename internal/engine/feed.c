// overlake_feed(id): rows that Go hands out, straight into the engine's vectors.
//
// Binding holds the feed, init opens a cursor over the projected columns, and every thread has a reader of its own that
// takes whole batches from the cursor. What Go gives for these is a handle; 0 is none.
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

typedef struct {
	uintptr_t handle;
} held;

static held *hold(void) { return calloc(1, sizeof(held)); }

static void let_go(void *p) {
	held *h = p;
	if (h->handle) ovFeedDrop(h->handle);
	free(h);
}

static void bind(duckdb_bind_info info) {
	duckdb_value v = duckdb_bind_get_parameter(info, 0);
	int64_t id = duckdb_is_null_value(v) ? 0 : duckdb_get_int64(v);
	duckdb_destroy_value(&v);
	held *h = hold();
	if (!h) {
		duckdb_bind_set_error(info, "out of memory");
		return;
	}
	duckdb_bind_set_bind_data(info, h, let_go);
	char *err = ovFeedBind(id, info, &h->handle);
	if (err) {
		duckdb_bind_set_error(info, err);
		free(err);
	}
}

static void init(duckdb_init_info info) {
	held *feed = duckdb_init_get_bind_data(info), *h = hold();
	if (!h) {
		duckdb_init_set_error(info, "out of memory");
		return;
	}
	duckdb_init_set_init_data(info, h, let_go);
	idx_t threads = 1;
	char *err = ovFeedOpen(feed->handle, info, &h->handle, &threads);
	if (err) {
		duckdb_init_set_error(info, err);
		free(err);
	}
	duckdb_init_set_max_threads(info, threads);
}

static void init_local(duckdb_init_info info) {
	held *h = hold();
	if (!h) {
		duckdb_init_set_error(info, "out of memory");
		return;
	}
	h->handle = ovFeedReader();
	duckdb_init_set_init_data(info, h, let_go);
}

static void next(duckdb_function_info info, duckdb_data_chunk out) {
	held *cursor = duckdb_function_get_init_data(info), *reader = duckdb_function_get_local_init_data(info);
	idx_t n = 0;
	char *err = ovFeedNext(cursor->handle, reader->handle, out, &n);
	if (err) {
		duckdb_function_set_error(info, err);
		free(err);
		n = 0;
	}
	duckdb_data_chunk_set_size(out, n);
}

// The engine's string: up to twelve bytes lie inline.
typedef struct {
	uint32_t length;
	char inlined[12];
} short_string;

// ov_fill_text writes n strings to the rows from at on; the caller knows that text is UTF-8. Exactly one of the offset
// arrays is given; it has n + 1 elements. NULL rows are written as well: their bytes are there, and cost less than asking.
void ov_fill_text(duckdb_vector to, idx_t at, const int32_t *off32, const int64_t *off64, const char *bytes, idx_t n) {
	short_string *s = (short_string *)duckdb_vector_get_data(to) + at;
	for (idx_t i = 0; i < n; i++) {
		int64_t from = off32 ? off32[i] : off64[i];
		int64_t len = (off32 ? off32[i + 1] : off64[i + 1]) - from;
		if (len > 12) {
			duckdb_unsafe_vector_assign_string_element_len(to, at + i, bytes + from, (idx_t)len);
			continue;
		}
		memset(&s[i], 0, sizeof s[i]);
		s[i].length = (uint32_t)len;
		if (len) memcpy(s[i].inlined, bytes + from, (size_t)len);
	}
}

duckdb_state ov_feed_register(duckdb_connection con) {
	duckdb_logical_type big = duckdb_create_logical_type(OV_TYPE_BIGINT);
	duckdb_table_function f = duckdb_create_table_function();
	duckdb_table_function_set_name(f, "overlake_feed");
	duckdb_table_function_add_parameter(f, big);
	duckdb_table_function_set_bind(f, bind);
	duckdb_table_function_set_init(f, init);
	duckdb_table_function_set_local_init(f, init_local);
	duckdb_table_function_set_function(f, next);
	duckdb_table_function_supports_projection_pushdown(f, true);
	duckdb_state st = duckdb_register_table_function(con, f);
	duckdb_destroy_table_function(&f);
	duckdb_destroy_logical_type(&big);
	return st;
}
