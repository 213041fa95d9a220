// The measured workloads: each function adds the rows of one workload. One thread.
#pragma once

#include <vector>

#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// The cost of an idle runtime: measured first, while the process has no other threads.
void add_idle_rows(std::vector<Row>& rows);
/// Resident memory of devices and of queued tasks.
void add_footprint_rows(std::vector<Row>& rows);
/// Host threads submit empty tasks to one worker, which runs them.
void add_submit_rows(std::vector<Row>& rows);
/// Submit one task and wait for it while the worker spins.
void add_round_trip_rows(std::vector<Row>& rows);
/// The same while the worker sleeps.
void add_parked_rows(std::vector<Row>& rows);
/// Chains of tasks that alternate between two workers.
void add_hop_rows(std::vector<Row>& rows);
/// One task, then one task on each of eight devices, then one task after all eight.
void add_fan_rows(std::vector<Row>& rows);
/// A loop in parts, by two threads.
void add_parallel_rows(std::vector<Row>& rows);
/// Tasks on many devices that share few workers.
void add_pooled_rows(std::vector<Row>& rows);
/// A switch onto a fiber and back.
void add_fiber_rows(std::vector<Row>& rows);
/// The cost of recording a trace, per task.
void add_trace_rows(std::vector<Row>& rows);
/// Open a device and close it.
void add_open_rows(std::vector<Row>& rows);
/// Round trips after pauses, with several spin times.
void add_spin_rows(std::vector<Row>& rows);
/// Schedule a routine whose kernel does nothing.
void add_schedule_rows(std::vector<Row>& rows);
/// Run a replay of such routines.
void add_replay_rows(std::vector<Row>& rows);
/// Cached calls of executors: host time, time to the result, and calls by two threads.
void add_call_rows(std::vector<Row>& rows);
/// Calls of executors that update a state in place.
void add_donation_rows(std::vector<Row>& rows);
/// Taking blocks of a device's memory, and giving them back.
void add_pool_rows(std::vector<Row>& rows);
/// Copies from device to device, and sums with values of another device.
void add_move_rows(std::vector<Row>& rows);
/// Sums over several devices; each device has the result.
void add_all_reduce_rows(std::vector<Row>& rows);
/// Updates of a perceptron, on one device and on two.
void add_training_rows(std::vector<Row>& rows);
/// Writes to fresh and to reused memory.
void add_touch_rows(std::vector<Row>& rows);
/// Generated code for relu(a * b + c) * d, in cache and in memory.
void add_elementwise_rows(std::vector<Row>& rows);
/// Generated code for exp, sin and the like.
void add_math_rows(std::vector<Row>& rows);
/// Generated code for row and column sums, softmax, layernorm and the transpose of a large matrix.
void add_sum_rows(std::vector<Row>& rows);
void add_softmax_rows(std::vector<Row>& rows);
void add_layernorm_rows(std::vector<Row>& rows);
void add_transpose_rows(std::vector<Row>& rows);
/// Generated code for a matrix product.
void add_matmul_rows(std::vector<Row>& rows);
/// Generated code for other products, a convolution and a training step.
void add_product_rows(std::vector<Row>& rows);
/// Kernels through routines, on one processor and on all of them.
void add_whole_rows(std::vector<Row>& rows);
/// Generated code for graphs, against the same computations by statements, loops and frameworks.
void add_graph_rows(std::vector<Row>& rows);
/// Models as a user writes them first, by field, on one processor.
void add_written_products(std::vector<Row>& rows);
void add_written_networks(std::vector<Row>& rows);
void add_written_physics(std::vector<Row>& rows);
void add_written_statistics(std::vector<Row>& rows);
void add_written_tables(std::vector<Row>& rows);
void add_written_images(std::vector<Row>& rows);
/// Tracing and lowering a graph of many nodes.
void add_tracing_rows(std::vector<Row>& rows);
/// Compiling twelve equal blocks of a network, against one block.
void add_layers_rows(std::vector<Row>& rows);

/// Arrays on a GPU, against copies, or cuBLAS.
void add_gpu_array_rows(std::vector<Row>& rows);
/// Launches on a GPU, and hops from stream to stream, against the driver alone.
void add_gpu_launch_rows(std::vector<Row>& rows);

/// Compiles of new programs, up to loaded code.
void add_cold_rows(std::vector<Row>& rows);
/// The same with code from the kernel cache.
void add_warm_rows(std::vector<Row>& rows);
/// Compiling a program whose code exists already.
void add_known_rows(std::vector<Row>& rows);

}  // namespace heddle::bench
