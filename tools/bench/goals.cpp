// See goals.hpp.
#include "tools/bench/goals.hpp"

#include <algorithm>

namespace heddle::bench {
namespace {

constexpr Goal goals_known[] = {
    {"submit+run, 1 producer", "bare flag ring", 1.3},
    {"submit+run, 1 producer", every_rival, 0.125},
    {"submit+run, events kept", "bare flag ring", 1.5},
    {"submit+run, batches of 500", "bare flag ring", 1.5},
    {"submit+run, batches of 2000", "bare flag ring", 1.5},
    {"submit+run, batches of 400000", "bare flag ring", 1.5},
    {"submit+run, queue of 64", "bare flag ring", 1.5},
    {"submit+run, queue of 1048576", "bare flag ring", 1.5},
    {"submit+run, 2 producers", "bare fetch_add ring", 1.2},
    {"submit+run, 2 producers", every_rival, 0.125},
    {"submit+run, 4 producers", "bare fetch_add ring", 1.2},
    {"submit+run, 4 producers", every_rival, 0.125},
    {"round trip, awake", "bare flag ring", 1.3},
    {"round trip, asleep 20 us", "bare futex", 1.1},
    {"round trip, asleep 1 ms", "bare futex", 1.1},
    {"round trip, asleep 10 ms", "bare futex", 1.1},
    {"hop, posted", "bare flag ring", 1.3},
    {"two parts that meet", "spin ping-pong", 1.3},
    {"two parts that meet", every_rival, 0.5},
    {"pooled, 64 devices", "heddle, threaded", 2},
    {"pooled, 64 devices", "heddle, 64 threads", 2},
    {"fiber switch", "bare context", 30, Unit::ns},
    {"tracing on, added", "", 15, Unit::ns},
    {"open+close", "bare thread", 2},
    {"scheduled small routine, host", "", 120, Unit::ns},
    {"scheduled small routine, host, automatic beyond manual", "", 30, Unit::ns},
    {"scheduled small routine, worker beyond kernel", "", 60, Unit::ns},
    {"scheduled small routine, worker beyond kernel, automatic beyond manual", "", 30, Unit::ns},
    {"small routine, inputs read elsewhere too, host, automatic beyond manual", "", 30, Unit::ns},
    {"small routine, inputs read elsewhere too, worker beyond kernel, automatic beyond manual", "",
     30, Unit::ns},
    {"replayed small routine, host", "", 20, Unit::ns},
    {"replayed small routine, worker beyond kernel", "", 20, Unit::ns},
    {"cached call, 2 arguments, host", "heddle, schedule", 300, Unit::ns},
    {"cached call, 2 arguments, host", "JAX", 0.1},
    {"cached call, 2 arguments, host", "PyTorch", 0.1},
    {"cached call, 2 arguments, host", "PyTorch, compiled", 0.1},
    {"cached call, 2 arguments, allocations", "", 0, Unit::count},
    {"cached call, 16 arguments, host", "heddle, schedule", 700, Unit::ns},
    {"cached call, 16 arguments, host", "JAX", 0.1},
    {"cached call, 16 arguments, host", "PyTorch", 0.1},
    {"cached call, 16 arguments, host", "PyTorch, compiled", 0.1},
    {"cached call, 16 arguments, allocations", "", 0, Unit::count},
    {"call to result, 2 arguments, beyond 1.2 bare tasks", "", 300, Unit::ns},
    {"cached call, 2 arguments, an inline device each", "heddle, 1 thread", 1 / 1.8},
    {"donated update, 16 B, host", "JAX", 0.1},
    {"donated update, 16 B, host", "PyTorch", 0.1},
    {"donated update, 64 MiB, new memory", "", 0, Unit::bytes},
    {"donated update, 64 MiB", "hand-written loop", 1 / 0.95},
    {"pool hit, 4 KiB", "malloc", 40, Unit::ns},
    {"pool hit, 4 KiB", "mimalloc", 40, Unit::ns},
    {"copy to another device, 16 MiB", "memcpy", 1 / 0.9},
    {"a += merge(b), streamed, 16 MiB", "hand-written loop", 1 / 0.95},
    {"train 64-64-10 on 128 images, 2 devices", "two threads apart", 1 / 0.9},
    {"train 784-512-512-10 on 256 images, 2 devices", "two threads apart", 1 / 0.9},
    {"relu(ab+c)d, L1 (8 KiB arrays)", "hand-written loop", 1 / 0.95},
    {"relu(ab+c)d, L2 (128 KiB arrays)", "hand-written loop", 1 / 0.95},
    {"relu(ab+c)d, memory (64 MiB arrays)", "hand-written loop", 1 / 0.95},
    {"matmul 256x256", "multiply-add peak", 1 / 0.9},
    {"matmul 512x512", "multiply-add peak", 1 / 0.9},
    {"matmul 1024x1024", "multiply-add peak", 1 / 0.9},
    {"matmul 2048x2048", "multiply-add peak", 1 / 0.9},
    {"matmul 16x16", "OpenBLAS", 1},
    {"matmul 32x32", "OpenBLAS", 1},
    {"matmul 64x64", "OpenBLAS", 1},
    {"matmul 128x128", "OpenBLAS", 1},
    {"matmul 256x256", "OpenBLAS", 1},
    {"matmul 512x512", "OpenBLAS", 1},
    {"matmul 1024x1024", "OpenBLAS", 1},
    {"matmul 2048x2048", "OpenBLAS", 1},
    {"tall, 4096x64 by 64x64", "OpenBLAS", 1},
    {"wide, 64x64 by 64x4096", "OpenBLAS", 1},
    {"flat, 64x4096 by 4096x64", "OpenBLAS", 1},
    {"transposed a, 512x512", "OpenBLAS", 1},
    {"transposed b, 512x512", "OpenBLAS", 1},
    {"both transposed, 512x512", "OpenBLAS", 1},
    {"batched, 256 of 16x16", "OpenBLAS", 1},
    {"transposed a, 512x512", "heddle, plain product", 1.02},
    {"transposed b, 512x512", "heddle, plain product", 1.02},
    {"both transposed, 512x512", "heddle, plain product", 1.02},
    {"bias and relu, 512x512", "heddle, plain product", 1.02},
    {"conv2d 3x3, 64 to 64 channels, 56x56", "multiply-add peak", 1 / 0.8},
    {"row sums, 4096x4096", "hand-written loop", 1 / 0.95},
    {"column sums, 4096x4096", "hand-written loop", 1 / 0.95},
    {"softmax, 4096x4096", "hand-written loop", 1.05},
    {"layernorm, 4096x4096", "hand-written loop", 1.05},
    {"transpose, 4096x4096", "copy", 1 / 0.85},
    {every_row, "heddle, by statements", 1.05},
    {"embedding, 16384 rows x 64 of 50000", "plain C++ loop", 1 / 0.7},
    {"scatter-add, 1M rows x 16 into 50000", "plain C++ loop", 1 / 0.7},
    {"sort, 1M", "std::stable_sort", 1},
    {"trace and lower 10000 nodes", "", 200'000'000, Unit::ns},
    {"twelve transformer blocks, cc", "one block", 1.3},
    {"twelve transformer blocks, gccjit", "one block", 1.3},
    {"GPU, a + b", "device-to-device copy", 1 / 0.9},
    {"GPU, relu(ab+c)d", "device-to-device copy", 1 / 0.9},
    {"GPU, row sums", "device-to-device copy", 1 / 0.9},
    {"GPU, softmax", "device-to-device copy", 1 / 0.9},
    {"GPU, layernorm", "device-to-device copy", 1 / 0.9},
    {"GPU, transpose", "device-to-device copy", 1 / 0.8},
    {"GPU, matmul", "cuBLAS", 1 / 0.75},
    {"GPU, launch", "bare cuLaunchKernel", 1.1},
    {"GPU, hop to another stream", "bare events", 1.2},
    {every_row, "naive C++", 1},
    {every_row, "heddle, cc", 1.03},
    {every_row, "heddle, gccjit", 1.03},
    {every_row, "JAX", 1},
    {every_row, "PyTorch", 1},
    {every_row, "PyTorch, compiled", 1},
    {"idle, 16 devices", "", 0.1, Unit::percent},
    {"cold start, cc, 1 kernel", "bare compiler, in turn", 1.1},
    {"cold start, cc, 50 kernels", "bare compiler, in turn", 0.6},
    {"cold start, gccjit, 1 kernel", "bare compiler, in turn", 1.1},
    {"cold start, gccjit, 50 kernels", "bare compiler, in turn", 0.6},
    {"warm start, cc, 50 kernels", "dlopen+dlsym, a file each", 200'000, Unit::ns},
    {"warm start, gccjit, 50 kernels", "dlopen+dlsym, a file each", 200'000, Unit::ns},
    {"known program, training step", "BLAKE2b of what it says", 20'000, Unit::ns},
};

bool is_for(const Goal& goal, const Result& row) {
  const bool anchor =
      goal.anchor == every_rival ? row.anchor_kind == Kind::rival : goal.anchor == row.anchor;
  return anchor && (goal.workload == every_row || goal.workload == row.workload);
}

}  // namespace

std::span<const Goal> goals() { return goals_known; }

const Goal* goal_for(const Result& row) {
  const auto* const found =
      std::ranges::find_if(goals_known, [&row](const Goal& goal) { return is_for(goal, row); });
  return found == std::end(goals_known) ? nullptr : found;
}

double reached(const Goal& goal, const Result& result) {
  return goal.unit == Unit::ratio ? result.ratio.median : result.subject_figure.median;
}

}  // namespace heddle::bench
