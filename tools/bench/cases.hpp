// What is measured: each function adds the cases of one workload. One thread.
#pragma once

#include <vector>

#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// One host thread submits empty tasks to one worker, which runs them.
void add_submit_cases(std::vector<Case>& cases);
/// Submit one task and wait for it while the worker spins.
void add_round_trip_cases(std::vector<Case>& cases);
/// The same while the worker sleeps.
void add_parked_cases(std::vector<Case>& cases);
/// The same after pauses, with several spin times.
void add_spin_cases(std::vector<Case>& cases);
/// A chain of tasks that alternates between two workers.
void add_hop_cases(std::vector<Case>& cases);
/// Writes to fresh and to reused memory.
void add_memory_cases(std::vector<Case>& cases);
/// Generated code for relu(a * b + c) * d, in cache and in memory.
void add_elementwise_cases(std::vector<Case>& cases);
/// Generated code for a matrix product.
void add_matmul_cases(std::vector<Case>& cases);

}  // namespace heddle::bench
