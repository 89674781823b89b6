// What Go calls in this room's C, and what C calls in Go.
#ifndef OVERLAKE_ENGINE_H
#define OVERLAKE_ENGINE_H

#include "abi.h"

typedef struct {
	int64_t rows;
	const uint64_t *deleted; // bit set: the row is gone; NULL: none is
	const uint64_t *allowed; // bit clear: the row is not wanted; NULL: all are
} ov_live_file;

int64_t ov_live_new(idx_t files);
bool ov_live_set(int64_t id, idx_t file, int64_t rows, const uint64_t *deleted, const uint64_t *allowed);
void ov_live_release(int64_t id);
int64_t ov_live_bytes(void);
duckdb_state ov_live_register(duckdb_connection con);

duckdb_state ov_vector_aggregates(duckdb_connection con, duckdb_logical_type vector);

bool ov_file_add(const char *path, const char *real, bool writable, int64_t id, int64_t size);
void ov_file_remove(const char *path);
int64_t ov_file_count(void);

// One running statement.
typedef struct {
	duckdb_connection con;
	duckdb_prepared_statement stmt;
	duckdb_result res;
	bool started;
	bool kept; // the statement is another's
} ov_query;

char *ov_exec(duckdb_connection con, const char *sql);
char *ov_prepare(ov_query *q, const char *sql);
char *ov_start(ov_query *q);
int ov_next(ov_query *q, duckdb_data_chunk *out, char **err);
void ov_finish(ov_query *q);
duckdb_state ov_bind_floats(ov_query *q, idx_t param, const float *v, idx_t n);
duckdb_state ov_bind_doubles(ov_query *q, idx_t param, const double *v, idx_t n);
duckdb_state ov_bind_schema(ov_query *q, idx_t param, const int32_t *ids, const char *all, const idx_t *ends, const bool *defaults, idx_t n);
duckdb_state ov_bind_texts(ov_query *q, idx_t param, const char *all, const idx_t *ends, idx_t n);

// What Go registers: the handle stands for the Go value until the engine drops the function. On failure it is dropped
// before the call returns.
typedef struct {
	const char *name;
	duckdb_logical_type *args;
	int nargs;
	duckdb_logical_type varargs, result; // varargs may be NULL
	bool nulls, is_volatile;
	uintptr_t handle;
} ov_function;

duckdb_state ov_scalar(duckdb_connection con, const ov_function *f);
duckdb_state ov_aggregate(duckdb_connection con, const ov_function *f);
duckdb_state ov_cast(duckdb_connection con, duckdb_logical_type from, duckdb_logical_type to, int64_t cost, uintptr_t handle);
duckdb_state ov_feed_register(duckdb_connection con);
void ov_fill_text(duckdb_vector to, idx_t at, const int32_t *off32, const int64_t *off64, const char *bytes, idx_t n);

#endif
