/* Ronde's C API: what other languages and frameworks' plug-ins use. Small, and stable: fields and
 * functions are only ever added, at the end of a struct, with a new RONDE_C_VERSION.
 *
 * All functions are reached through one table, so that a plug-in that is loaded into a process
 * finds the one copy of Ronde that lives there: libronde's ronde_c_api(), or, where Python has
 * loaded Ronde, the address that ronde._core.c_api() gives.
 *
 * Threads: any, for all functions. No function blocks, but for init, shutdown, and submit as far as
 * ronde_submission.help_microseconds lets it. */
#ifndef RONDE_C_H
#define RONDE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): C's names, not those of the C++ code. */
#define RONDE_C_VERSION 9u
#define RONDE_C_HOST_BYTES 64
#define RONDE_C_TEXT_BYTES 1024

/* Error codes; 0 is success. */
typedef enum ronde_code {
  RONDE_OK = 0,
  RONDE_INVALID_ARGUMENT = 1,
  RONDE_MISMATCH = 2,
  RONDE_DUPLICATE_NAME = 3,
  RONDE_RANK_FAILURE = 4,
  RONDE_STALLED = 5,
  RONDE_TIMEOUT = 6,
  RONDE_ABORTED = 7,
  RONDE_INTERRUPTED = 8,
  RONDE_NOT_INITIALIZED = 9,
  RONDE_UNSUPPORTED = 10,
  RONDE_RESOURCE_EXHAUSTED = 11,
  RONDE_VERSION_MISMATCH = 12,
  RONDE_UNAVAILABLE = 13,
  RONDE_INTERNAL = 14,
  RONDE_NONFINITE = 15, /* Since version 8. */
  RONDE_CORRUPTED = 16  /* Since version 8. */
} ronde_code;

/* Element types. Those from 12 on are known since version 7. */
typedef enum ronde_dtype {
  RONDE_UINT8 = 0,
  RONDE_INT8 = 1,
  RONDE_INT16 = 2,
  RONDE_INT32 = 3,
  RONDE_INT64 = 4,
  RONDE_FLOAT16 = 5,
  RONDE_BFLOAT16 = 6,
  RONDE_FLOAT32 = 7,
  RONDE_FLOAT64 = 8,
  RONDE_BOOL = 9,
  RONDE_FLOAT8_E4M3FN = 10,
  RONDE_FLOAT8_E5M2 = 11,
  RONDE_UINT16 = 12,
  RONDE_UINT32 = 13,
  RONDE_UINT64 = 14
} ronde_dtype;

/* How elements of different ranks are combined. */
typedef enum ronde_op {
  RONDE_SUM = 0,
  RONDE_AVERAGE = 1,
  RONDE_MIN = 2,
  RONDE_MAX = 3,
  RONDE_PRODUCT = 4,
  RONDE_BIT_AND = 5,
  RONDE_BIT_OR = 6,
  RONDE_BIT_XOR = 7,
  RONDE_ADASUM = 8
} ronde_op;

/* What is done collectively. Which of a tensor's `in` and `out` are used as in the C++ API.
 * RONDE_SPARSE_ALLREDUCE: since version 9. */
typedef enum ronde_collective {
  RONDE_ALLREDUCE = 0,
  RONDE_ALLGATHER = 1,
  RONDE_BROADCAST = 2,
  RONDE_REDUCE_SCATTER = 3,
  RONDE_ALLTOALL = 4,
  RONDE_REDUCE = 5,
  RONDE_GATHER = 6,
  RONDE_SCATTER = 7,
  RONDE_BARRIER = 8,
  RONDE_JOIN = 9,
  RONDE_SPARSE_ALLREDUCE = 10
} ronde_collective;

/* The operations that a process certainly does not submit before this one has ended. */
typedef enum ronde_blocks {
  RONDE_BLOCKS_NOTHING = 0,
  RONDE_BLOCKS_UNNAMED = 1,   /* Operations without a name. */
  RONDE_BLOCKS_EVERYTHING = 2 /* Any operation. */
} ronde_blocks;

/* This process's membership in a job. */
typedef struct ronde_job ronde_job;

/* An error: code, text for people, and the rank it is about (-1: none; pid 0, host "": unknown).
 * Longer texts are cut. */
typedef struct ronde_error {
  int32_t code;
  int32_t rank;
  int32_t pid;
  char host[RONDE_C_HOST_BYTES];
  char text[RONDE_C_TEXT_BYTES];
} ronde_error;

/* One tensor, dense, in host memory. `in` null: no elements, or not the root. `out` equal to `in`:
 * in place. `out` null: the operation asks ronde_submission.allocate. */
typedef struct ronde_tensor {
  int32_t dtype;
  int32_t dimensions;
  const int64_t* shape;
  const void* in;
  void* out;
} ronde_tensor;

/* How an operation ended. Valid only during the callback that is given it. */
typedef struct ronde_outcome {
  const ronde_error* error;   /* Null where it ended well. */
  const int64_t* recv_splits; /* alltoall: rows received from each member. sparse_allreduce: the
                                 index of each row of the result. */
  size_t recv_split_count;
  int32_t last_joined; /* join: the rank that joined last. */
} ronde_outcome;

/* Gives memory for output number `index`, of `dimensions` extents `shape`; null: there is none,
 * which fails the operation (for no elements, any non-null address will do). Called in a thread of
 * Ronde, before `done`. */
typedef void* (*ronde_allocate)(void* context, size_t index, const int64_t* shape,
                                int32_t dimensions);
/* Called once, in a thread of Ronde: must not block. Memory of inputs and outputs is free then. */
typedef void (*ronde_done)(void* context, const ronde_outcome* outcome);

/* One operation. Names say which operations of different ranks belong together; an empty one means
 * the k-th unnamed operation meets the k-th of the others. Several tensors are all or none. */
typedef struct ronde_submission {
  size_t struct_bytes; /* sizeof(ronde_submission) as compiled by the caller. */
  int32_t collective;
  int32_t set; /* Process set; 0 is all ranks. */
  const char* name;
  const char* call_site; /* "file:line" of the user's code, for errors; may be null. */
  const ronde_tensor* tensors;
  size_t tensor_count;
  int32_t op;
  int32_t root; /* Rank of the job; -1 where there is none. */
  double prescale;
  double postscale;
  int32_t priority;      /* Of operations ready together, the highest goes first. */
  const int64_t* splits; /* alltoall: rows for each member; null: even parts. sparse_allreduce: the
                            index of each row, and last the number that they are below, or -1. */
  size_t split_count;
  ronde_allocate allocate; /* May be null where every output is given. */
  ronde_done done;
  void* context; /* Passed to both. */
  /* Since version 2. */
  const char* compression; /* allreduce: a codec such as "int8:block=256", or "none"; null or empty:
                              the job's setting. reduce_scatter, allgather: fp16, bf16, int8, int4
                              or auto, or none of them. */
  /* Since version 3. */
  const char* program; /* What else the rank submits together with it, in words: ranks that say
                          something else get an error. Null or empty: fits all. */
  /* Since version 4. */
  int32_t help_microseconds; /* How long submit may wait for the other ranks before it returns, so
                                that no thread need be woken for it: for a small operation, where
                                the caller has nothing better to do. What all ranks have agreed to
                                by then, submit finishes. At most 1000; 0: not at all. */
  /* Since version 5. */
  int32_t blocks; /* A ronde_blocks, where it is certain: the deadlock detector then finds ranks
                     that wait for each other after a second, before they stall. */
  /* Since version 6. */
  const double* weight; /* allreduce by average of floating types: this rank's weight in the mean,
                           finite, not negative, not 0 on all ranks. Null: none, on all ranks. */
  /* Since version 7. */
  int32_t (*may_submit)(const char* name); /* With RONDE_BLOCKS_UNNAMED: operations of a name that
                           it gives 0 for are blocked too. Called in any thread, at any time. Null:
                           operations with a name are not blocked. */
} ronde_submission;

/* The functions. Those that give a code also fill in `error`, which may be null. */
typedef struct ronde_api {
  uint32_t version;
  /* Joins the job that the environment describes; collective; blocks. Null and `error` on failure.
   * Give the result back by shutdown and release. It becomes the current job. */
  ronde_job* (*init)(ronde_error* error);
  /* The job that this process joined last, or null where it has left it. Release it after use. */
  ronde_job* (*current)(void);
  void (*release)(ronde_job* job);
  /* Finishes what is agreed and leaves the job. Blocks. Idempotent. */
  void (*shutdown)(ronde_job* job);
  int32_t (*rank)(const ronde_job* job);
  int32_t (*size)(const ronde_job* job);
  int32_t (*local_rank)(const ronde_job* job);
  int32_t (*local_size)(const ronde_job* job);
  /* Writes at most `capacity` ranks of a process set, ascending; returns how many there are, or -1
   * and `error` where there is no such set. */
  int32_t (*set_ranks)(const ronde_job* job, int32_t set, int32_t* ranks, int32_t capacity,
                       ronde_error* error);
  /* Makes a process set of these ranks, the same call on all ranks of the job; blocks. Returns its
   * number, or -1 and `error`. */
  int32_t (*add_set)(ronde_job* job, const int32_t* ranks, int32_t count, ronde_error* error);
  int32_t (*remove_set)(ronde_job* job, int32_t set, ronde_error* error);
  /* Starts one operation. Where it gives RONDE_OK, `done` is called once, perhaps before this
   * returns; otherwise it never is. Strings and arrays are copied; tensors' memory is not, and must
   * stay valid and untouched until `done`. */
  int32_t (*submit)(ronde_job* job, const ronde_submission* submission, ronde_error* error);
  /* Since version 5. This process waits for nothing that it has submitted so far: none of it blocks
   * anything any more, see ronde_submission.blocks. Call it before anything else is submitted. */
  void (*clear_blocked)(void);
} ronde_api;

/* The table of the library that exports this; null where it does not have `version`. */
typedef const ronde_api* (*ronde_c_api_function)(uint32_t version);
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const ronde_api*
ronde_c_api(uint32_t version);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif /* RONDE_C_H */
