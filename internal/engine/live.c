// overlake_live(scan, file_index, file_row_number): is this row part of the scan?
//
// A scan is registered with two optional bit arrays a file: deleted positions and allowed positions. The scan id must be
// a constant: binding looks it up once and holds a reference, so the rows of a chunk cost two loads and a shift each and
// take no lock, and a scan that is released while a query still runs stays in memory until that query ends.
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct ov_scan {
	int64_t id;
	atomic_long refs;
	idx_t files;
	ov_live_file *file;
	struct ov_scan *next;
} ov_scan;

enum { BUCKETS = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ov_scan *table[BUCKETS];
static int64_t last_id;
static atomic_llong bytes_held;

int64_t ov_live_bytes(void) { return atomic_load(&bytes_held); }

static idx_t words(int64_t rows) { return (idx_t)((rows + 63) / 64); }

static void unref(void *p) {
	ov_scan *s = p;
	if (atomic_fetch_sub(&s->refs, 1) != 1) return;
	int64_t n = sizeof *s + (int64_t)s->files * sizeof *s->file;
	for (idx_t i = 0; i < s->files; i++) {
		if (s->file[i].deleted) n += words(s->file[i].rows) * 8;
		if (s->file[i].allowed) n += words(s->file[i].rows) * 8;
		free((void *)s->file[i].deleted);
		free((void *)s->file[i].allowed);
	}
	atomic_fetch_sub(&bytes_held, n);
	free(s->file);
	free(s);
}

// ov_live_new takes over nothing: it reserves the files, and ov_live_set copies the words in. 0 means out of memory.
int64_t ov_live_new(idx_t files) {
	ov_scan *s = calloc(1, sizeof *s);
	if (!s) return 0;
	s->file = calloc(files ? files : 1, sizeof *s->file);
	if (!s->file) {
		free(s);
		return 0;
	}
	s->files = files;
	atomic_store(&s->refs, 1);
	atomic_fetch_add(&bytes_held, sizeof *s + (int64_t)files * sizeof *s->file);
	pthread_mutex_lock(&lock);
	s->id = ++last_id;
	s->next = table[s->id % BUCKETS];
	table[s->id % BUCKETS] = s;
	pthread_mutex_unlock(&lock);
	return s->id;
}

static ov_scan *find(int64_t id) {
	if (id < 0) return NULL;
	for (ov_scan *s = table[id % BUCKETS]; s; s = s->next)
		if (s->id == id) return s;
	return NULL;
}

static const uint64_t *copy(const uint64_t *w, int64_t rows) {
	uint64_t *c = malloc(words(rows) * 8 + 8);
	if (!c) return NULL;
	memcpy(c, w, words(rows) * 8);
	atomic_fetch_add(&bytes_held, (int64_t)words(rows) * 8);
	return c;
}

// ov_live_set is called before the id is used in SQL. It returns false when memory is out.
bool ov_live_set(int64_t id, idx_t file, int64_t rows, const uint64_t *deleted, const uint64_t *allowed) {
	pthread_mutex_lock(&lock);
	ov_scan *s = find(id);
	pthread_mutex_unlock(&lock);
	if (!s || file >= s->files) return false;
	ov_live_file *f = &s->file[file];
	f->rows = rows;
	if (deleted && !(f->deleted = copy(deleted, rows))) return false;
	if (allowed && !(f->allowed = copy(allowed, rows))) return false;
	return true;
}

void ov_live_release(int64_t id) {
	pthread_mutex_lock(&lock);
	ov_scan **p = &table[id % BUCKETS];
	while (*p && (*p)->id != id) p = &(*p)->next;
	ov_scan *s = *p;
	if (s) *p = s->next;
	pthread_mutex_unlock(&lock);
	if (s) unref(s);
}

static void *ref(void *p) {
	atomic_fetch_add(&((ov_scan *)p)->refs, 1);
	return p;
}

static void bind(duckdb_bind_info info) {
	duckdb_expression e = duckdb_scalar_function_bind_get_argument(info, 0);
	ov_scan *s = NULL;
	if (duckdb_expression_is_foldable(e)) {
		duckdb_client_context ctx = NULL;
		duckdb_value v = NULL;
		duckdb_scalar_function_get_client_context(info, &ctx);
		duckdb_error_data err = duckdb_expression_fold(ctx, e, &v);
		if (!err || !duckdb_error_data_has_error(err)) {
			pthread_mutex_lock(&lock);
			s = duckdb_is_null_value(v) ? NULL : find(duckdb_get_int64(v));
			if (s) ref(s);
			pthread_mutex_unlock(&lock);
		}
		if (err) duckdb_destroy_error_data(&err);
		if (v) duckdb_destroy_value(&v);
		duckdb_destroy_client_context(&ctx);
	}
	duckdb_destroy_expression(&e);
	if (!s) {
		duckdb_scalar_function_bind_set_error(info, "overlake_live: there is no such scan");
		return;
	}
	duckdb_scalar_function_set_bind_data(info, s, unref);
	duckdb_scalar_function_set_bind_data_copy(info, ref);
}

static bool keeps(const ov_live_file *x, uint64_t p) {
	// Beyond the registered rows nothing is deleted, and nothing is allowed unless all is.
	if (p >= (uint64_t)x->rows) return !x->allowed;
	return !(x->deleted && (x->deleted[p >> 6] >> (p & 63) & 1)) && (!x->allowed || (x->allowed[p >> 6] >> (p & 63) & 1));
}

// is_run tells whether rows follow each other in one file, which is how a scan gives them.
static bool is_run(const uint64_t *file, const int64_t *row, idx_t n) {
	uint64_t differs = 0;
	for (idx_t i = 0; i < n; i++) differs |= (file[i] ^ file[0]) | ((uint64_t)row[i] - (uint64_t)row[0] - i);
	return !differs;
}

// keeps_run takes n rows of a file from row p on, all of them registered, a word of 64 at a time.
static void keeps_run(const ov_live_file *x, uint64_t p, idx_t n, bool *out) {
	memset(out, true, n);
	for (uint64_t k = p >> 6; k <= (p + n - 1) >> 6; k++) {
		uint64_t gone = (x->deleted ? x->deleted[k] : 0) | (x->allowed ? ~x->allowed[k] : 0);
		if (k == p >> 6) gone &= ~0ull << (p & 63);
		if (k == (p + n - 1) >> 6) gone &= ~0ull >> (63 - ((p + n - 1) & 63));
		for (; gone; gone &= gone - 1) out[(k << 6) + (uint64_t)__builtin_ctzll(gone) - p] = false;
	}
}

static void live(duckdb_function_info info, duckdb_data_chunk in, duckdb_vector out) {
	const ov_scan *s = duckdb_scalar_function_get_bind_data(info);
	idx_t n = duckdb_data_chunk_get_size(in);
	const uint64_t *file = duckdb_vector_get_data(duckdb_data_chunk_get_vector(in, 1));
	const int64_t *row = duckdb_vector_get_data(duckdb_data_chunk_get_vector(in, 2));
	bool *o = duckdb_vector_get_data(out);
	if (n && file[0] < s->files && row[0] >= 0 && row[0] <= s->file[file[0]].rows - (int64_t)n && is_run(file, row, n)) {
		keeps_run(&s->file[file[0]], (uint64_t)row[0], n, o);
		return;
	}
	for (idx_t i = 0; i < n; i++) o[i] = file[i] < s->files && keeps(&s->file[file[i]], (uint64_t)row[i]);
}

duckdb_state ov_live_register(duckdb_connection con) {
	duckdb_logical_type big = duckdb_create_logical_type(OV_TYPE_BIGINT);
	duckdb_logical_type ubig = duckdb_create_logical_type(OV_TYPE_UBIGINT);
	duckdb_logical_type boolean = duckdb_create_logical_type(OV_TYPE_BOOLEAN);
	duckdb_scalar_function f = duckdb_create_scalar_function();
	duckdb_scalar_function_set_name(f, "overlake_live");
	duckdb_scalar_function_add_parameter(f, big);
	duckdb_scalar_function_add_parameter(f, ubig);
	duckdb_scalar_function_add_parameter(f, big);
	duckdb_scalar_function_set_return_type(f, boolean);
	duckdb_scalar_function_set_bind(f, bind);
	duckdb_scalar_function_set_function(f, live);
	duckdb_state st = duckdb_register_scalar_function(con, f);
	duckdb_destroy_scalar_function(&f);
	duckdb_destroy_logical_type(&big);
	duckdb_destroy_logical_type(&ubig);
	duckdb_destroy_logical_type(&boolean);
	return st;
}
