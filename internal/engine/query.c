// Statements, functions and feeds: the calls that would cost many crossings of the language border if Go made them
// one by one. Errors come back as malloc'ed text, NULL means success.
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

static char *text(const char *s) { return strdup(s ? s : "the engine gave no reason"); }

char *ov_exec(duckdb_connection con, const char *sql) {
	duckdb_result r;
	char *err = NULL;
	if (duckdb_query(con, sql, &r)) err = text(duckdb_result_error(&r));
	duckdb_destroy_result(&r);
	return err;
}

char *ov_prepare(ov_query *q, const char *sql) {
	if (duckdb_prepare(q->con, sql, &q->stmt)) return text(duckdb_prepare_error(q->stmt));
	return NULL;
}

char *ov_start(ov_query *q) {
	duckdb_pending_result p = NULL;
	char *err = NULL;
	if (duckdb_pending_prepared_streaming(q->stmt, &p)) {
		err = text(duckdb_pending_error(p));
	} else if (duckdb_execute_pending(p, &q->res)) {
		err = text(duckdb_result_error(&q->res));
		duckdb_destroy_result(&q->res);
	} else {
		q->started = true;
	}
	duckdb_destroy_pending(&p);
	return err;
}

// ov_next gives the next chunk that has rows, for the caller to destroy: 1 with one, 0 at the end, -1 on error.
int ov_next(ov_query *q, duckdb_data_chunk *out, char **err) {
	for (;;) {
		duckdb_data_chunk c = duckdb_fetch_chunk(q->res);
		if (!c) {
			const char *e = duckdb_result_error(&q->res);
			if (!e || !*e) return 0;
			*err = text(e);
			return -1;
		}
		if (duckdb_data_chunk_get_size(c)) {
			*out = c;
			return 1;
		}
		duckdb_destroy_data_chunk(&c);
	}
}

void ov_finish(ov_query *q) {
	if (q->started) {
		duckdb_destroy_result(&q->res);
		q->started = false;
	}
	if (q->stmt) duckdb_destroy_prepare(&q->stmt);
}

static duckdb_state bind_list(ov_query *q, idx_t param, int type, const void *v, idx_t n) {
	duckdb_value *vals = calloc(n + 1, sizeof *vals);
	if (!vals) return 1;
	for (idx_t i = 0; i < n; i++)
		vals[i] = type == OV_TYPE_FLOAT ? duckdb_create_float(((const float *)v)[i]) : duckdb_create_double(((const double *)v)[i]);
	duckdb_logical_type t = duckdb_create_logical_type(type);
	duckdb_value list = duckdb_create_list_value(t, vals, n);
	duckdb_state st = duckdb_bind_value(q->stmt, param, list);
	duckdb_destroy_value(&list);
	duckdb_destroy_logical_type(&t);
	for (idx_t i = 0; i < n; i++) duckdb_destroy_value(&vals[i]);
	free(vals);
	return st;
}

duckdb_state ov_bind_floats(ov_query *q, idx_t param, const float *v, idx_t n) { return bind_list(q, param, OV_TYPE_FLOAT, v, n); }
duckdb_state ov_bind_doubles(ov_query *q, idx_t param, const double *v, idx_t n) { return bind_list(q, param, OV_TYPE_DOUBLE, v, n); }
