// Functions, aggregates and casts whose work Go does. What the engine keeps for each is a counted handle of a Go value, so
// that the engine may copy and drop it where it likes.
#include "engine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

typedef struct {
	uintptr_t handle;
	atomic_long refs;
} shared;

static shared *share(uintptr_t handle) {
	shared *s = calloc(1, sizeof *s);
	if (!s) {
		ovFunctionDrop(handle);
		return NULL;
	}
	s->handle = handle;
	atomic_store(&s->refs, 1);
	return s;
}

static void drop(void *p) {
	shared *s = p;
	if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
	ovFunctionDrop(s->handle);
	free(s);
}

static void *again(void *p) {
	if (p) atomic_fetch_add(&((shared *)p)->refs, 1);
	return p;
}

static void bind_scalar(duckdb_bind_info info) {
	shared *f = duckdb_scalar_function_bind_get_extra_info(info);
	uintptr_t bound = 0;
	char *err = ovScalarBind(f->handle, info, &bound);
	if (!err) {
		shared *s = share(bound);
		if (s) {
			duckdb_scalar_function_set_bind_data(info, s, drop);
			duckdb_scalar_function_set_bind_data_copy(info, again);
			return;
		}
		err = strdup("out of memory");
	}
	duckdb_scalar_function_bind_set_error(info, err ? err : "out of memory");
	free(err);
}

static void call_scalar(duckdb_function_info info, duckdb_data_chunk in, duckdb_vector out) {
	shared *f = duckdb_scalar_function_get_extra_info(info), *bound = duckdb_scalar_function_get_bind_data(info);
	char *err = ovScalarCall(f->handle, bound->handle, in, out);
	if (err) {
		duckdb_scalar_function_set_error(info, err);
		free(err);
	}
}

duckdb_state ov_scalar(duckdb_connection con, const ov_function *d) {
	shared *s = share(d->handle);
	if (!s) return 1;
	duckdb_scalar_function f = duckdb_create_scalar_function();
	duckdb_scalar_function_set_name(f, d->name);
	for (int i = 0; i < d->nargs; i++) duckdb_scalar_function_add_parameter(f, d->args[i]);
	if (d->varargs) duckdb_scalar_function_set_varargs(f, d->varargs);
	duckdb_scalar_function_set_return_type(f, d->result);
	if (d->nulls) duckdb_scalar_function_set_special_handling(f);
	if (d->is_volatile) duckdb_scalar_function_set_volatile(f);
	duckdb_scalar_function_set_bind(f, bind_scalar);
	duckdb_scalar_function_set_extra_info(f, s, drop);
	duckdb_scalar_function_set_function(f, call_scalar);
	duckdb_state st = duckdb_register_scalar_function(con, f);
	duckdb_destroy_scalar_function(&f);
	return st;
}

// call_cast: a failed row is NULL under TRY_CAST and ends the statement otherwise.
static bool call_cast(duckdb_function_info info, idx_t n, duckdb_vector in, duckdb_vector out) {
	shared *f = duckdb_cast_function_get_extra_info(info);
	bool try_cast = duckdb_cast_function_get_cast_mode(info) == OV_CAST_TRY;
	bool ok = true;
	for (idx_t at = 0; at < n;) {
		idx_t failed = n;
		char *err = ovCastCall(f->handle, at, n, in, out, &failed);
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

duckdb_state ov_cast(duckdb_connection con, duckdb_logical_type from, duckdb_logical_type to, int64_t cost, uintptr_t handle) {
	shared *s = share(handle);
	if (!s) return 1;
	duckdb_cast_function f = duckdb_create_cast_function();
	duckdb_cast_function_set_source_type(f, from);
	duckdb_cast_function_set_target_type(f, to);
	duckdb_cast_function_set_implicit_cast_cost(f, cost);
	duckdb_cast_function_set_extra_info(f, s, drop);
	duckdb_cast_function_set_function(f, call_cast);
	duckdb_state st = duckdb_register_cast_function(con, f);
	duckdb_destroy_cast_function(&f);
	return st;
}

// An aggregate's state is one handle of a Go value, 0 before its first row.
static idx_t state_size(duckdb_function_info info) {
	(void)info;
	return sizeof(uintptr_t);
}

static void state_init(duckdb_function_info info, duckdb_aggregate_state s) {
	(void)info;
	*(uintptr_t *)s = 0;
}

static void state_destroy(duckdb_aggregate_state *s, idx_t n) {
	for (idx_t i = 0; i < n; i++) {
		uintptr_t *h = s[i];
		if (*h) ovFunctionDrop(*h);
		*h = 0;
	}
}

static void aggregate_failed(duckdb_function_info info, char *err) {
	if (!err) return;
	duckdb_aggregate_function_set_error(info, err);
	free(err);
}

static uintptr_t aggregate_of(duckdb_function_info info) { return ((shared *)duckdb_aggregate_function_get_extra_info(info))->handle; }

static void update(duckdb_function_info info, duckdb_data_chunk in, duckdb_aggregate_state *states) {
	aggregate_failed(info, ovAggregateAdd(aggregate_of(info), in, (uintptr_t **)states));
}

static void combine(duckdb_function_info info, duckdb_aggregate_state *from, duckdb_aggregate_state *to, idx_t n) {
	aggregate_failed(info, ovAggregateMerge(aggregate_of(info), (uintptr_t **)from, (uintptr_t **)to, n));
}

static void finalize(duckdb_function_info info, duckdb_aggregate_state *states, duckdb_vector out, idx_t n, idx_t offset) {
	aggregate_failed(info, ovAggregateDone(aggregate_of(info), (uintptr_t **)states, out, n, offset));
}

duckdb_state ov_aggregate(duckdb_connection con, const ov_function *d) {
	shared *s = share(d->handle);
	if (!s) return 1;
	duckdb_aggregate_function f = duckdb_create_aggregate_function();
	duckdb_aggregate_function_set_name(f, d->name);
	for (int i = 0; i < d->nargs; i++) duckdb_aggregate_function_add_parameter(f, d->args[i]);
	duckdb_aggregate_function_set_return_type(f, d->result);
	duckdb_aggregate_function_set_special_handling(f); // NULLs are skipped in Go
	duckdb_aggregate_function_set_functions(f, state_size, state_init, update, combine, finalize);
	duckdb_aggregate_function_set_destructor(f, state_destroy);
	duckdb_aggregate_function_set_extra_info(f, s, drop);
	duckdb_state st = duckdb_register_aggregate_function(con, f);
	duckdb_destroy_aggregate_function(&f);
	return st;
}
