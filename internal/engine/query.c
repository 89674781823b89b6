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

static void call_scalar(duckdb_function_info info, duckdb_data_chunk in, duckdb_vector out) {
	char *err = ovScalarCall((uintptr_t)duckdb_scalar_function_get_extra_info(info), in, out);
	if (err) {
		duckdb_scalar_function_set_error(info, err);
		free(err);
	}
}

duckdb_state ov_scalar(duckdb_connection con, const char *name, duckdb_logical_type *args, int nargs,
                       duckdb_logical_type result, bool special, uintptr_t id) {
	duckdb_scalar_function f = duckdb_create_scalar_function();
	duckdb_scalar_function_set_name(f, name);
	for (int i = 0; i < nargs; i++) duckdb_scalar_function_add_parameter(f, args[i]);
	duckdb_scalar_function_set_return_type(f, result);
	if (special) duckdb_scalar_function_set_special_handling(f);
	duckdb_scalar_function_set_extra_info(f, (void *)id, NULL);
	duckdb_scalar_function_set_function(f, call_scalar);
	duckdb_state st = duckdb_register_scalar_function(con, f);
	duckdb_destroy_scalar_function(&f);
	return st;
}

// call_cast: a failed row is NULL under TRY_CAST and ends the statement otherwise.
static bool call_cast(duckdb_function_info info, idx_t n, duckdb_vector in, duckdb_vector out) {
	bool try_cast = duckdb_cast_function_get_cast_mode(info) == OV_CAST_TRY;
	idx_t at = 0;
	bool ok = true;
	while (at < n) {
		idx_t failed = n;
		char *err = ovCastCall((uintptr_t)duckdb_cast_function_get_extra_info(info), at, n, in, out, &failed);
		if (!err) break;
		ok = false;
		if (!try_cast) {
			duckdb_cast_function_set_error(info, err);
			free(err);
			return false;
		}
		duckdb_cast_function_set_row_error(info, err, failed, out);
		free(err);
		at = failed + 1;
	}
	return ok;
}

duckdb_state ov_cast(duckdb_connection con, duckdb_logical_type from, duckdb_logical_type to, int64_t cost, uintptr_t id) {
	duckdb_cast_function f = duckdb_create_cast_function();
	duckdb_cast_function_set_source_type(f, from);
	duckdb_cast_function_set_target_type(f, to);
	duckdb_cast_function_set_implicit_cast_cost(f, cost);
	duckdb_cast_function_set_extra_info(f, (void *)id, NULL);
	duckdb_cast_function_set_function(f, call_cast);
	duckdb_state st = duckdb_register_cast_function(con, f);
	duckdb_destroy_cast_function(&f);
	return st;
}
