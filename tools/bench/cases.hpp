// What is measured: each function adds the rows of one workload. One thread.
#pragma once

#include <vector>

#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// What a runtime costs that has nothing to do: first, while the process has no threads but ours.
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
/// One task, then one on each of eight devices, then one after them all.
void add_fan_rows(std::vector<Row>& rows);
/// A loop in parts, by two threads.
void add_parallel_rows(std::vector<Row>& rows);
/// Tasks on many devices that share few workers.
void add_pooled_rows(std::vector<Row>& rows);
/// Onto a fiber and back.
void add_fiber_rows(std::vector<Row>& rows);
/// What recording a trace adds to a task.
void add_trace_rows(std::vector<Row>& rows);
/// Open a device and close it.
void add_open_rows(std::vector<Row>& rows);
/// Round trips after pauses, with several spin times.
void add_spin_rows(std::vector<Row>& rows);
/// Schedule a routine whose kernel does nothing.
void add_schedule_rows(std::vector<Row>& rows);
/// Run a replay of such routines.
void add_replay_rows(std::vector<Row>& rows);
/// Cached calls of executors: on the host, to their results, by two threads.
void add_call_rows(std::vector<Row>& rows);
/// Calls of executors that update a state in place.
void add_donation_rows(std::vector<Row>& rows);
/// Blocks of a device's memory, taken and given back.
void add_pool_rows(std::vector<Row>& rows);
/// Copies from device to device, and sums with what another device has.
void add_move_rows(std::vector<Row>& rows);
/// Sums over several devices, which each of them has then.
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
/// Generated code for graphs, against the same by statements, loops and frameworks.
void add_graph_rows(std::vector<Row>& rows);
/// Tracing and lowering a graph of many nodes.
void add_tracing_rows(std::vector<Row>& rows);
/// Compiling twelve equal blocks of a network, against one.
void add_layers_rows(std::vector<Row>& rows);

/// Programs to loaded code that was never compiled before.
void add_cold_rows(std::vector<Row>& rows);
/// The same from the kernel cache.
void add_warm_rows(std::vector<Row>& rows);
/// A program that is compiled already, asked for again.
void add_known_rows(std::vector<Row>& rows);

}  // namespace heddle::bench
