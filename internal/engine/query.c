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
	if (q->stmt && !q->kept) duckdb_destroy_prepare(&q->stmt);
}

// bind_values binds a list and frees its values.
static duckdb_state bind_values(ov_query *q, idx_t param, int type, duckdb_value *vals, idx_t n) {
	duckdb_logical_type t = duckdb_create_logical_type(type);
	duckdb_value list = duckdb_create_list_value(t, vals, n);
	duckdb_state st = duckdb_bind_value(q->stmt, param, list);
	duckdb_destroy_value(&list);
	duckdb_destroy_logical_type(&t);
	for (idx_t i = 0; i < n; i++) duckdb_destroy_value(&vals[i]);
	free(vals);
	return st;
}

static duckdb_state bind_list(ov_query *q, idx_t param, int type, const void *v, idx_t n) {
	duckdb_value *vals = calloc(n + 1, sizeof *vals);
	if (!vals) return 1;
	for (idx_t i = 0; i < n; i++)
		vals[i] = type == OV_TYPE_FLOAT ? duckdb_create_float(((const float *)v)[i]) : duckdb_create_double(((const double *)v)[i]);
	return bind_values(q, param, type, vals, n);
}

duckdb_state ov_bind_floats(ov_query *q, idx_t param, const float *v, idx_t n) { return bind_list(q, param, OV_TYPE_FLOAT, v, n); }
duckdb_state ov_bind_doubles(ov_query *q, idx_t param, const double *v, idx_t n) { return bind_list(q, param, OV_TYPE_DOUBLE, v, n); }

// ov_bind_texts binds a list of n texts; text i ends before ends[i + 1].
duckdb_state ov_bind_texts(ov_query *q, idx_t param, const char *all, const idx_t *ends, idx_t n) {
	duckdb_value *vals = calloc(n + 1, sizeof *vals);
	if (!vals) return 1;
	for (idx_t i = 0; i < n; i++) vals[i] = duckdb_create_varchar_length(all + ends[i], ends[i + 1] - ends[i]);
	return bind_values(q, param, OV_TYPE_VARCHAR, vals, n);
}

// ov_bind_schema binds n columns as read_parquet's schema wants them: MAP(INTEGER, STRUCT(name, type, default_value)), by
// field id. Each column has three texts, name, type and default, laid out as in ov_bind_texts.
duckdb_state ov_bind_schema(ov_query *q, idx_t param, const int32_t *ids, const char *all, const idx_t *ends, const bool *defaults, idx_t n) {
	duckdb_value *keys = calloc(n + 1, sizeof *keys), *columns = calloc(n + 1, sizeof *columns);
	duckdb_state st = 1;
	if (keys && columns) {
		duckdb_logical_type text = duckdb_create_logical_type(OV_TYPE_VARCHAR), integer = duckdb_create_logical_type(OV_TYPE_INTEGER);
		duckdb_logical_type types[] = {text, text, text};
		const char *names[] = {"name", "type", "default_value"};
		duckdb_logical_type column = duckdb_create_struct_type(types, names, 3), map = duckdb_create_map_type(integer, column);
		for (idx_t i = 0; i < n; i++) {
			duckdb_value v[3];
			for (int k = 0; k < 3; k++) {
				const idx_t *end = &ends[3 * i + k];
				v[k] = k == 2 && !defaults[i] ? duckdb_create_null_value() : duckdb_create_varchar_length(all + end[0], end[1] - end[0]);
			}
			keys[i] = duckdb_create_int32(ids[i]);
			columns[i] = duckdb_create_struct_value(column, v);
			for (int k = 0; k < 3; k++) duckdb_destroy_value(&v[k]);
		}
		duckdb_value value = duckdb_create_map_value(map, keys, columns, n);
		if (value) st = duckdb_bind_value(q->stmt, param, value);
		duckdb_destroy_value(&value);
		for (idx_t i = 0; i < n; i++) {
			duckdb_destroy_value(&keys[i]);
			duckdb_destroy_value(&columns[i]);
		}
		duckdb_destroy_logical_type(&map);
		duckdb_destroy_logical_type(&column);
		duckdb_destroy_logical_type(&integer);
		duckdb_destroy_logical_type(&text);
	}
	free(keys);
	free(columns);
	return st;
}
