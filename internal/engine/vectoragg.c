// vector_sum and vector_avg: aggregates over lists of float, with pgvector's arithmetic (sum adds in float4 and refuses
// to overflow, avg adds in float8), NULLs skipped, NULL for no rows.
#include "engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	int64_t n;
	uint64_t dim;
	double *sum; // of the dimension; float values when the aggregate is sum
} state;

static bool is_avg(duckdb_function_info info) { return duckdb_aggregate_function_get_extra_info(info) != NULL; }

static idx_t size(duckdb_function_info info) {
	(void)info;
	return sizeof(state);
}

static void init(duckdb_function_info info, duckdb_aggregate_state s) {
	(void)info;
	memset(s, 0, sizeof(state));
}

static void destroy(duckdb_aggregate_state *s, idx_t n) {
	for (idx_t i = 0; i < n; i++) {
		free(((state *)s[i])->sum);
		((state *)s[i])->sum = NULL;
	}
}

static void fail(duckdb_function_info info, const char *format, uint64_t a, uint64_t b) {
	char text[160];
	snprintf(text, sizeof text, format, (unsigned long long)a, (unsigned long long)b);
	duckdb_aggregate_function_set_error(info, text);
}

static bool start(duckdb_function_info info, state *s, uint64_t dim) {
	if (s->sum) {
		if (s->dim == dim) return true;
		fail(info, is_avg(info) ? "expected %llu dimensions, not %llu" : "different vector dimensions %llu and %llu", s->dim, dim);
		return false;
	}
	s->sum = calloc(dim ? dim : 1, sizeof(double));
	if (!s->sum) {
		fail(info, "out of memory for an aggregate of vectors", 0, 0);
		return false;
	}
	s->dim = dim;
	return true;
}

static bool add(duckdb_function_info info, state *s, uint64_t k, double v) {
	if (is_avg(info)) {
		s->sum[k] += v;
		return true;
	}
	float f = (float)s->sum[k] + (float)v;
	if (isinf(f)) {
		fail(info, "value out of range: overflow", 0, 0);
		return false;
	}
	s->sum[k] = f;
	return true;
}

static void update(duckdb_function_info info, duckdb_data_chunk in, duckdb_aggregate_state *states) {
	idx_t n = duckdb_data_chunk_get_size(in);
	duckdb_vector v = duckdb_data_chunk_get_vector(in, 0);
	const duckdb_list_entry *e = duckdb_vector_get_data(v);
	duckdb_vector elements = duckdb_list_vector_get_child(v);
	const float *d = duckdb_vector_get_data(elements);
	const uint64_t *valid = duckdb_vector_get_validity(v), *whole = duckdb_vector_get_validity(elements);
	for (idx_t i = 0; i < n; i++) {
		if (valid && !((valid[i >> 6] >> (i & 63)) & 1)) continue;
		state *s = states[i];
		if (!start(info, s, e[i].length)) return;
		const float *x = d + e[i].offset;
		for (uint64_t k = 0; k < s->dim; k++) {
			uint64_t at = e[i].offset + k;
			if (whole && !((whole[at >> 6] >> (at & 63)) & 1)) {
				fail(info, "array must not contain nulls", 0, 0);
				return;
			}
			if (!add(info, s, k, x[k])) return;
		}
		s->n++;
	}
}

static void combine(duckdb_function_info info, duckdb_aggregate_state *from, duckdb_aggregate_state *to, idx_t n) {
	for (idx_t i = 0; i < n; i++) {
		state *a = from[i], *b = to[i];
		if (!a->n) continue;
		if (!start(info, b, a->dim)) return;
		for (uint64_t k = 0; k < b->dim; k++)
			if (!add(info, b, k, a->sum[k])) return;
		b->n += a->n;
	}
}

static void finalize(duckdb_function_info info, duckdb_aggregate_state *states, duckdb_vector out, idx_t n, idx_t offset) {
	bool avg = is_avg(info);
	duckdb_list_entry *e = duckdb_vector_get_data(out);
	idx_t at = duckdb_list_vector_get_size(out);
	for (idx_t i = 0; i < n; i++) {
		const state *s = states[i];
		e[offset + i].offset = at;
		e[offset + i].length = s->n ? s->dim : 0;
		if (!s->n) {
			duckdb_vector_ensure_validity_writable(out);
			uint64_t *valid = duckdb_vector_get_validity(out);
			valid[(offset + i) >> 6] &= ~(1ULL << ((offset + i) & 63));
			continue;
		}
		duckdb_list_vector_reserve(out, at + s->dim);
		duckdb_list_vector_set_size(out, at + s->dim);
		float *d = duckdb_vector_get_data(duckdb_list_vector_get_child(out));
		e = duckdb_vector_get_data(out);
		for (uint64_t k = 0; k < s->dim; k++) {
			float f = (float)(avg ? s->sum[k] / (double)s->n : s->sum[k]);
			if (isinf(f)) {
				fail(info, "infinite value not allowed in vector", 0, 0);
				return;
			}
			d[at + k] = f;
		}
		at += s->dim;
	}
}

duckdb_state ov_vector_aggregates(duckdb_connection con, duckdb_logical_type vector) {
	const char *names[] = {"vector_sum", "vector_avg"};
	for (int k = 0; k < 2; k++) {
		duckdb_aggregate_function f = duckdb_create_aggregate_function();
		duckdb_aggregate_function_set_name(f, names[k]);
		duckdb_aggregate_function_add_parameter(f, vector);
		duckdb_aggregate_function_set_return_type(f, vector);
		duckdb_aggregate_function_set_functions(f, size, init, update, combine, finalize);
		duckdb_aggregate_function_set_destructor(f, destroy);
		duckdb_aggregate_function_set_extra_info(f, k ? (void *)names : NULL, NULL);
		duckdb_state st = duckdb_register_aggregate_function(con, f);
		duckdb_destroy_aggregate_function(&f);
		if (st) return st;
	}
	return 0;
}
