// The loops that anybody would write, over whole arrays, for the compiler to make the best of.
#include "loops.h"

#include <time.h>

void loop_l2(const float *q, const float *rows, long n, long d, float *out) {
	for (long i = 0; i < n; i++) {
		const float *r = rows + i * d;
		float s = 0;
		for (long j = 0; j < d; j++) {
			float x = q[j] - r[j];
			s += x * x;
		}
		out[i] = s;
	}
}

void loop_l2_at(const float *q, const float *rows, const uint32_t *ids, long n, long d, float *out) {
	for (long i = 0; i < n; i++) {
		const float *r = rows + (long)ids[i] * d;
		float s = 0;
		for (long j = 0; j < d; j++) {
			float x = q[j] - r[j];
			s += x * x;
		}
		out[i] = s;
	}
}

void loop_dot(const float *q, const float *rows, long n, long d, float *out) {
	for (long i = 0; i < n; i++) {
		const float *r = rows + i * d;
		float s = 0;
		for (long j = 0; j < d; j++)
			s += q[j] * r[j];
		out[i] = s;
	}
}

void loop_dot_at(const float *q, const float *rows, const uint32_t *ids, long n, long d, float *out) {
	for (long i = 0; i < n; i++) {
		const float *r = rows + (long)ids[i] * d;
		float s = 0;
		for (long j = 0; j < d; j++)
			s += q[j] * r[j];
		out[i] = s;
	}
}

void loop_dot_u8(const int8_t *q, const uint8_t *rows, long n, long d, int32_t *out) {
	for (long i = 0; i < n; i++) {
		const uint8_t *r = rows + i * d;
		int32_t s = 0;
		for (long j = 0; j < d; j++)
			s += (int32_t)q[j] * (int32_t)r[j];
		out[i] = s;
	}
}

void loop_hamming(const uint8_t *q, const uint8_t *rows, long n, long bytes, uint32_t *out) {
	const uint64_t *a = (const uint64_t *)q;
	long words = bytes / 8;
	for (long i = 0; i < n; i++) {
		const uint64_t *b = (const uint64_t *)rows + i * words;
		uint64_t s = 0;
		for (long j = 0; j < words; j++)
			s += (uint64_t)__builtin_popcountll(a[j] ^ b[j]);
		out[i] = (uint32_t)s;
	}
}

// loop_cpu gives the processor time of this thread in nanoseconds.
int64_t loop_cpu(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
