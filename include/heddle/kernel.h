/* The kernel ABI: what a compiled kernel is called with. Plain C, versioned, struct_size first, so
 * that code compiled by any heddle of the same major version can be launched. A kernel may be
 * called from any thread; two calls must not share a writable buffer unless their parts are
 * disjoint. */
#ifndef HEDDLE_KERNEL_H
#define HEDDLE_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_KERNEL_ABI 2u

/* One buffer entry of a kernel, in the order of its signature. `data` points at the first
 * element. Entries of scratch share bytes where one is used last before the other is used first, in
 * the order of the loop's statements: a compiler must not be told that they are apart. */
typedef struct heddle_kernel_buffer {
  void* data;
  uint64_t bytes;
} heddle_kernel_buffer;

/* Called for each assignment of a kernel compiled with value tracing: `entry` is the buffer's
 * position, `offset` its row-major element offset, values widened to double (u64 and i64 above 2^53
 * round). */
typedef void (*heddle_kernel_trace)(void* context, uint32_t statement, uint32_t entry,
                                    int64_t offset, double before, double after);

/* The code of a kernel that returned because *stop said so: what it writes is incomplete. */
#define HEDDLE_KERNEL_STOPPED 1

/* Where a kernel says that it could not go on. code 0: fine. */
typedef struct heddle_kernel_status {
  int32_t code;
  int32_t detail;
} heddle_kernel_status;

typedef struct heddle_kernel_args {
  uint32_t struct_size; /* sizeof(heddle_kernel_args) of the caller */
  uint32_t abi;         /* HEDDLE_KERNEL_ABI */
  const heddle_kernel_buffer* buffers;
  uint32_t num_buffers;
  uint32_t num_statics;
  const int64_t* statics; /* values of the static indices, in the order of the loop text */
  uint32_t part;          /* this call computes part `part` of `num_parts` of the parallel loops */
  uint32_t num_parts;
  const int64_t* dims; /* reserved for symbolic extents; null */
  heddle_kernel_status* status;
  heddle_kernel_trace trace; /* null unless traced */
  void* trace_context;
  /* Null, or a word that any thread may set while the kernel runs, and that long kernels read
   * (atomically) now and then: where it is not 0 they return early, HEDDLE_KERNEL_STOPPED. Kernels
   * that end soon do not look. */
  const uint32_t* stop;
} heddle_kernel_args;

typedef void (*heddle_kernel_function)(const heddle_kernel_args* args);

#ifdef __cplusplus
}
#endif

#endif
