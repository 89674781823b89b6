#include <stdint.h>

void loop_l2(const float *q, const float *rows, long n, long d, float *out);
void loop_l2_at(const float *q, const float *rows, const uint32_t *ids, long n, long d, float *out);
void loop_dot(const float *q, const float *rows, long n, long d, float *out);
void loop_dot_at(const float *q, const float *rows, const uint32_t *ids, long n, long d, float *out);
void loop_dot_u8(const int8_t *q, const uint8_t *rows, long n, long d, int32_t *out);
void loop_hamming(const uint8_t *q, const uint8_t *rows, long n, long bytes, uint32_t *out);
int64_t loop_cpu(void);
