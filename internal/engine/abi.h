// The part of DuckDB's C interface that this room uses, version 1.5.6. The header itself ships inside a Go module that
// cgo cannot include from, so the signatures are repeated here; a changed signature shows in the tests of this room.
#ifndef OVERLAKE_ENGINE_ABI_H
#define OVERLAKE_ENGINE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t idx_t;
typedef int duckdb_state; // 0 is success
typedef void *duckdb_database;
typedef void *duckdb_connection;
typedef void *duckdb_config;
typedef void *duckdb_prepared_statement;
typedef void *duckdb_pending_result;
typedef void *duckdb_data_chunk;
typedef void *duckdb_vector;
typedef void *duckdb_logical_type;
typedef void *duckdb_value;
typedef void *duckdb_error_data;
typedef void *duckdb_scalar_function;
typedef void *duckdb_aggregate_function;
typedef void *duckdb_aggregate_state;
typedef void *duckdb_cast_function;
typedef void *duckdb_table_function;
typedef void *duckdb_function_info;
typedef void *duckdb_bind_info;
typedef void *duckdb_init_info;
typedef void *duckdb_expression;
typedef void *duckdb_client_context;

typedef struct {
	idx_t column_count, row_count, rows_changed;
	void *columns;
	char *error_message;
	void *internal_data;
} duckdb_result;

typedef struct {
	uint64_t offset;
	uint64_t length;
} duckdb_list_entry;

typedef void (*duckdb_delete_callback_t)(void *);
typedef void *(*duckdb_copy_callback_t)(void *);

enum { OV_TYPE_BOOLEAN = 1, OV_TYPE_TINYINT, OV_TYPE_SMALLINT, OV_TYPE_INTEGER, OV_TYPE_BIGINT, OV_TYPE_UTINYINT,
       OV_TYPE_USMALLINT, OV_TYPE_UINTEGER, OV_TYPE_UBIGINT, OV_TYPE_FLOAT, OV_TYPE_DOUBLE, OV_TYPE_TIMESTAMP, OV_TYPE_DATE,
       OV_TYPE_TIME, OV_TYPE_INTERVAL, OV_TYPE_HUGEINT, OV_TYPE_VARCHAR, OV_TYPE_BLOB, OV_TYPE_DECIMAL, OV_TYPE_TIMESTAMP_S,
       OV_TYPE_TIMESTAMP_MS, OV_TYPE_TIMESTAMP_NS, OV_TYPE_ENUM, OV_TYPE_LIST, OV_TYPE_STRUCT, OV_TYPE_MAP, OV_TYPE_UUID,
       OV_TYPE_UNION, OV_TYPE_BIT, OV_TYPE_TIME_TZ, OV_TYPE_TIMESTAMP_TZ, OV_TYPE_UHUGEINT, OV_TYPE_ARRAY, OV_TYPE_ANY,
       OV_TYPE_BIGNUM, OV_TYPE_SQLNULL, OV_TYPE_STRING_LITERAL, OV_TYPE_INTEGER_LITERAL, OV_TYPE_TIME_NS, OV_TYPE_GEOMETRY,
       OV_TYPE_VARIANT };
enum { OV_STATEMENT_SELECT = 1, OV_STATEMENT_EXPLAIN = 4, OV_STATEMENT_COPY = 11 };
enum { OV_CAST_TRY = 1 };

duckdb_state duckdb_open_ext(const char *, duckdb_database *, duckdb_config, char **);
void duckdb_close(duckdb_database *);
duckdb_state duckdb_connect(duckdb_database, duckdb_connection *);
void duckdb_disconnect(duckdb_connection *);
void duckdb_interrupt(duckdb_connection);
duckdb_state duckdb_create_config(duckdb_config *);
duckdb_state duckdb_set_config(duckdb_config, const char *, const char *);
void duckdb_destroy_config(duckdb_config *);
void duckdb_free(void *);
duckdb_state duckdb_query(duckdb_connection, const char *, duckdb_result *);
void duckdb_destroy_result(duckdb_result *);
const char *duckdb_result_error(duckdb_result *);
idx_t duckdb_column_count(duckdb_result *);
const char *duckdb_column_name(duckdb_result *, idx_t);
duckdb_logical_type duckdb_column_logical_type(duckdb_result *, idx_t);
duckdb_data_chunk duckdb_fetch_chunk(duckdb_result);

duckdb_state duckdb_prepare(duckdb_connection, const char *, duckdb_prepared_statement *);
void duckdb_destroy_prepare(duckdb_prepared_statement *);
const char *duckdb_prepare_error(duckdb_prepared_statement);
int duckdb_prepared_statement_type(duckdb_prepared_statement);
idx_t duckdb_nparams(duckdb_prepared_statement);
const char *duckdb_parameter_name(duckdb_prepared_statement, idx_t);
duckdb_state duckdb_bind_parameter_index(duckdb_prepared_statement, idx_t *, const char *);
duckdb_state duckdb_bind_value(duckdb_prepared_statement, idx_t, duckdb_value);
duckdb_state duckdb_bind_null(duckdb_prepared_statement, idx_t);
duckdb_state duckdb_bind_boolean(duckdb_prepared_statement, idx_t, bool);
duckdb_state duckdb_bind_int32(duckdb_prepared_statement, idx_t, int32_t);
duckdb_state duckdb_bind_int64(duckdb_prepared_statement, idx_t, int64_t);
duckdb_state duckdb_bind_uint64(duckdb_prepared_statement, idx_t, uint64_t);
duckdb_state duckdb_bind_float(duckdb_prepared_statement, idx_t, float);
duckdb_state duckdb_bind_double(duckdb_prepared_statement, idx_t, double);
duckdb_state duckdb_bind_varchar_length(duckdb_prepared_statement, idx_t, const char *, idx_t);
duckdb_state duckdb_bind_blob(duckdb_prepared_statement, idx_t, const void *, idx_t);
typedef struct { int64_t micros; } duckdb_timestamp;
duckdb_state duckdb_bind_timestamp_tz(duckdb_prepared_statement, idx_t, duckdb_timestamp);
duckdb_state duckdb_pending_prepared_streaming(duckdb_prepared_statement, duckdb_pending_result *);
duckdb_state duckdb_execute_pending(duckdb_pending_result, duckdb_result *);
const char *duckdb_pending_error(duckdb_pending_result);
void duckdb_destroy_pending(duckdb_pending_result *);

bool duckdb_error_data_has_error(duckdb_error_data);
const char *duckdb_error_data_message(duckdb_error_data);
void duckdb_destroy_error_data(duckdb_error_data *);

duckdb_logical_type duckdb_create_logical_type(int);
duckdb_logical_type duckdb_create_list_type(duckdb_logical_type);
duckdb_logical_type duckdb_create_map_type(duckdb_logical_type, duckdb_logical_type);
duckdb_logical_type duckdb_create_struct_type(duckdb_logical_type *, const char **, idx_t);
duckdb_logical_type duckdb_create_decimal_type(uint8_t, uint8_t);
void duckdb_destroy_logical_type(duckdb_logical_type *);
int duckdb_get_type_id(duckdb_logical_type);
uint8_t duckdb_decimal_width(duckdb_logical_type);
uint8_t duckdb_decimal_scale(duckdb_logical_type);
uint32_t duckdb_enum_dictionary_size(duckdb_logical_type);
char *duckdb_enum_dictionary_value(duckdb_logical_type, idx_t);
duckdb_logical_type duckdb_list_type_child_type(duckdb_logical_type);
duckdb_logical_type duckdb_array_type_child_type(duckdb_logical_type);
idx_t duckdb_array_type_array_size(duckdb_logical_type);
duckdb_logical_type duckdb_map_type_key_type(duckdb_logical_type);
duckdb_logical_type duckdb_map_type_value_type(duckdb_logical_type);
idx_t duckdb_struct_type_child_count(duckdb_logical_type);
char *duckdb_struct_type_child_name(duckdb_logical_type, idx_t);
duckdb_logical_type duckdb_struct_type_child_type(duckdb_logical_type, idx_t);
duckdb_vector duckdb_struct_vector_get_child(duckdb_vector, idx_t);
duckdb_vector duckdb_array_vector_get_child(duckdb_vector);
void duckdb_logical_type_set_alias(duckdb_logical_type, const char *);
char *duckdb_logical_type_get_alias(duckdb_logical_type);
duckdb_state duckdb_register_logical_type(duckdb_connection, duckdb_logical_type, void *);

idx_t duckdb_data_chunk_get_size(duckdb_data_chunk);
void duckdb_data_chunk_set_size(duckdb_data_chunk, idx_t);
idx_t duckdb_data_chunk_get_column_count(duckdb_data_chunk);
duckdb_vector duckdb_data_chunk_get_vector(duckdb_data_chunk, idx_t);
void duckdb_destroy_data_chunk(duckdb_data_chunk *);
duckdb_logical_type duckdb_vector_get_column_type(duckdb_vector);
void *duckdb_vector_get_data(duckdb_vector);
uint64_t *duckdb_vector_get_validity(duckdb_vector);
void duckdb_vector_ensure_validity_writable(duckdb_vector);
void duckdb_vector_assign_string_element_len(duckdb_vector, idx_t, const char *, idx_t);
void duckdb_unsafe_vector_assign_string_element_len(duckdb_vector, idx_t, const char *, idx_t); // UTF-8 is the caller's promise
duckdb_vector duckdb_list_vector_get_child(duckdb_vector);
idx_t duckdb_list_vector_get_size(duckdb_vector);
duckdb_state duckdb_list_vector_set_size(duckdb_vector, idx_t);
duckdb_state duckdb_list_vector_reserve(duckdb_vector, idx_t);

duckdb_scalar_function duckdb_create_scalar_function(void);
void duckdb_destroy_scalar_function(duckdb_scalar_function *);
void duckdb_scalar_function_set_name(duckdb_scalar_function, const char *);
void duckdb_scalar_function_add_parameter(duckdb_scalar_function, duckdb_logical_type);
void duckdb_scalar_function_set_return_type(duckdb_scalar_function, duckdb_logical_type);
void duckdb_scalar_function_set_special_handling(duckdb_scalar_function);
void duckdb_scalar_function_set_extra_info(duckdb_scalar_function, void *, duckdb_delete_callback_t);
void *duckdb_scalar_function_get_extra_info(duckdb_function_info);
void duckdb_scalar_function_set_function(duckdb_scalar_function, void (*)(duckdb_function_info, duckdb_data_chunk, duckdb_vector));
void duckdb_scalar_function_set_bind(duckdb_scalar_function, void (*)(duckdb_bind_info));
void duckdb_scalar_function_set_bind_data(duckdb_bind_info, void *, duckdb_delete_callback_t);
void duckdb_scalar_function_set_bind_data_copy(duckdb_bind_info, duckdb_copy_callback_t);
void *duckdb_scalar_function_get_bind_data(duckdb_function_info);
void duckdb_scalar_function_bind_set_error(duckdb_bind_info, const char *);
void *duckdb_scalar_function_bind_get_extra_info(duckdb_bind_info);
idx_t duckdb_scalar_function_bind_get_argument_count(duckdb_bind_info);
duckdb_expression duckdb_scalar_function_bind_get_argument(duckdb_bind_info, idx_t);
void duckdb_scalar_function_set_varargs(duckdb_scalar_function, duckdb_logical_type);
void duckdb_scalar_function_set_volatile(duckdb_scalar_function);
void duckdb_scalar_function_get_client_context(duckdb_bind_info, duckdb_client_context *);
void duckdb_destroy_client_context(duckdb_client_context *);
void duckdb_connection_get_client_context(duckdb_connection, duckdb_client_context *);
idx_t duckdb_client_context_get_connection_id(duckdb_client_context);
bool duckdb_expression_is_foldable(duckdb_expression);
duckdb_error_data duckdb_expression_fold(duckdb_client_context, duckdb_expression, duckdb_value *);
void duckdb_destroy_expression(duckdb_expression *);
void duckdb_scalar_function_set_error(duckdb_function_info, const char *);
duckdb_state duckdb_register_scalar_function(duckdb_connection, duckdb_scalar_function);

duckdb_cast_function duckdb_create_cast_function(void);
void duckdb_destroy_cast_function(duckdb_cast_function *);
void duckdb_cast_function_set_source_type(duckdb_cast_function, duckdb_logical_type);
void duckdb_cast_function_set_target_type(duckdb_cast_function, duckdb_logical_type);
void duckdb_cast_function_set_implicit_cast_cost(duckdb_cast_function, int64_t);
void duckdb_cast_function_set_function(duckdb_cast_function, bool (*)(duckdb_function_info, idx_t, duckdb_vector, duckdb_vector));
void duckdb_cast_function_set_extra_info(duckdb_cast_function, void *, duckdb_delete_callback_t);
void *duckdb_cast_function_get_extra_info(duckdb_function_info);
int duckdb_cast_function_get_cast_mode(duckdb_function_info);
void duckdb_cast_function_set_error(duckdb_function_info, const char *);
void duckdb_cast_function_set_row_error(duckdb_function_info, const char *, idx_t, duckdb_vector);
duckdb_state duckdb_register_cast_function(duckdb_connection, duckdb_cast_function);

duckdb_aggregate_function duckdb_create_aggregate_function(void);
void duckdb_destroy_aggregate_function(duckdb_aggregate_function *);
void duckdb_aggregate_function_set_name(duckdb_aggregate_function, const char *);
void duckdb_aggregate_function_add_parameter(duckdb_aggregate_function, duckdb_logical_type);
void duckdb_aggregate_function_set_return_type(duckdb_aggregate_function, duckdb_logical_type);
void duckdb_aggregate_function_set_special_handling(duckdb_aggregate_function);
void duckdb_aggregate_function_set_functions(duckdb_aggregate_function, idx_t (*)(duckdb_function_info),
	void (*)(duckdb_function_info, duckdb_aggregate_state),
	void (*)(duckdb_function_info, duckdb_data_chunk, duckdb_aggregate_state *),
	void (*)(duckdb_function_info, duckdb_aggregate_state *, duckdb_aggregate_state *, idx_t),
	void (*)(duckdb_function_info, duckdb_aggregate_state *, duckdb_vector, idx_t, idx_t));
void duckdb_aggregate_function_set_destructor(duckdb_aggregate_function, void (*)(duckdb_aggregate_state *, idx_t));
void duckdb_aggregate_function_set_extra_info(duckdb_aggregate_function, void *, duckdb_delete_callback_t);
void *duckdb_aggregate_function_get_extra_info(duckdb_function_info);
void duckdb_aggregate_function_set_error(duckdb_function_info, const char *);
duckdb_state duckdb_register_aggregate_function(duckdb_connection, duckdb_aggregate_function);

duckdb_table_function duckdb_create_table_function(void);
void duckdb_destroy_table_function(duckdb_table_function *);
void duckdb_table_function_set_name(duckdb_table_function, const char *);
void duckdb_table_function_add_parameter(duckdb_table_function, duckdb_logical_type);
void duckdb_table_function_set_bind(duckdb_table_function, void (*)(duckdb_bind_info));
void duckdb_table_function_set_init(duckdb_table_function, void (*)(duckdb_init_info));
void duckdb_table_function_set_function(duckdb_table_function, void (*)(duckdb_function_info, duckdb_data_chunk));
void duckdb_table_function_set_extra_info(duckdb_table_function, void *, duckdb_delete_callback_t);
void *duckdb_bind_get_extra_info(duckdb_bind_info);
duckdb_value duckdb_bind_get_parameter(duckdb_bind_info, idx_t);
void duckdb_bind_add_result_column(duckdb_bind_info, const char *, duckdb_logical_type);
void duckdb_bind_set_bind_data(duckdb_bind_info, void *, duckdb_delete_callback_t);
void duckdb_bind_set_error(duckdb_bind_info, const char *);
void duckdb_init_set_max_threads(duckdb_init_info, idx_t);
void duckdb_bind_set_cardinality(duckdb_bind_info, idx_t, bool);
void duckdb_table_function_set_local_init(duckdb_table_function, void (*)(duckdb_init_info));
void duckdb_table_function_supports_projection_pushdown(duckdb_table_function, bool);
idx_t duckdb_init_get_column_count(duckdb_init_info);
idx_t duckdb_init_get_column_index(duckdb_init_info, idx_t);
void *duckdb_init_get_bind_data(duckdb_init_info);
void *duckdb_function_get_local_init_data(duckdb_function_info);
void duckdb_init_set_init_data(duckdb_init_info, void *, duckdb_delete_callback_t);
void duckdb_init_set_error(duckdb_init_info, const char *);
void *duckdb_function_get_init_data(duckdb_function_info);
void duckdb_function_set_error(duckdb_function_info, const char *);
duckdb_state duckdb_register_table_function(duckdb_connection, duckdb_table_function);

int64_t duckdb_get_int64(duckdb_value);
bool duckdb_is_null_value(duckdb_value);
bool duckdb_get_bool(duckdb_value);
double duckdb_get_double(duckdb_value);
char *duckdb_get_varchar(duckdb_value);
idx_t duckdb_get_list_size(duckdb_value);
duckdb_value duckdb_get_list_child(duckdb_value, idx_t);
duckdb_logical_type duckdb_get_value_type(duckdb_value); // owned by the value
duckdb_value duckdb_create_varchar_length(const char *, idx_t);
duckdb_value duckdb_create_float(float);
duckdb_value duckdb_create_double(double);
duckdb_value duckdb_create_int32(int32_t);
duckdb_value duckdb_create_null_value(void);
duckdb_value duckdb_create_struct_value(duckdb_logical_type, duckdb_value *);
duckdb_value duckdb_create_map_value(duckdb_logical_type, duckdb_value *, duckdb_value *, idx_t);
duckdb_value duckdb_create_list_value(duckdb_logical_type, duckdb_value *, idx_t);
void duckdb_destroy_value(duckdb_value *);

#endif
