// Generated code, called as a function, against other loops: measures the code, not the scheduling.
// One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "heddle/backend.hpp"
#include "heddle/kernel.h"
#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// A program over tensors and memory for each; the last tensors are the results.
struct KernelSetup {
  Program program;
  std::vector<Tensor> tensors;
  std::vector<HostArray> arrays;
  std::size_t results = 1;  ///< that frameworks give

  /// Declares a tensor and gives it memory, uniform in [0, 1), the same each time.
  Tensor add(const std::string& label, const Dims& dims);
  /// The same for tensors of an existing program; whole numbers are uniform below `below`.
  void give(const Tensor& tensor, std::int64_t below = 1);
  [[nodiscard]] float* data(std::size_t k) const { return arrays[k].values<float>().data(); }
};

/// The kernels of a program, compiled and bound to the memory of a setup, which must outlive this
/// object, and to scratch memory of this object.
class CompiledKernel {
 public:
  /// Uses the compiler of `backend`. Throws Error; failed_precondition when the program keeps a
  /// tensor that the setup lacks.
  CompiledKernel(const std::string& backend, const KernelSetup& setup,
                 Schedule schedule = Schedule::automatic);
  CompiledKernel(const CompiledKernel&) = delete;
  CompiledKernel& operator=(const CompiledKernel&) = delete;

  void operator()() const {
    for (const Part& each : parts_) each.function(&each.arguments);
  }

 private:
  struct Part {
    std::shared_ptr<const dev::Module> module;
    std::vector<heddle_kernel_buffer> buffers;
    heddle_kernel_args arguments{};
    heddle_kernel_function function = nullptr;
  };

  Code code_;
  std::vector<HostArray> scratch_;
  heddle_kernel_status status_{};
  std::vector<Part> parts_;
};

/// Names of the usable backends, one per compiler.
[[nodiscard]] std::vector<std::string> compiling_backends();

/// Foreign code for the same program, bound to a setup.
struct Prepared {
  /// Runs the code `count` times; returns ns for one run.
  std::function<double(std::size_t count)> time;
  /// Copies the result of the latest run into the setup's last array; null: the result is there.
  std::function<void()> fetch = nullptr;
};
struct Alternative {
  std::string name;
  Kind kind;
  std::function<Prepared(const KernelSetup&)> prepare;
  bool same_result = true;  ///< else the code only moves as much memory
};
/// A function of this process; the result goes to the setup's last array.
[[nodiscard]] Prepared in_process(std::function<void()> call);
[[nodiscard]] Alternative in_process(const char* name, Kind kind,
                                     std::function<void(const KernelSetup&)> run);
/// heddle's code for another program over tensors of the same types in the same order, by the first
/// usable compiler.
[[nodiscard]] Alternative by_program(const char* name, std::function<KernelSetup()> make,
                                     Schedule schedule = Schedule::automatic);
/// The name of hand-written limits in the table.
inline constexpr const char* hand_written = "hand-written loop";

/// The comparison of generated code: a program, and the alternatives.
struct KernelWorkload {
  std::string name, workload;  ///< see Case
  std::size_t calls;           ///< between two readings of the clock
  std::function<KernelSetup()> make;
  std::vector<Alternative> alternatives;
  /// Runs for each backend, and as the first of a pair.
  nanoseconds slice = std::chrono::milliseconds(20);
};
/// Rows of each compiling backend against each alternative, the other compilers and the Python
/// frameworks. A setup is made when its row first runs and lives as long as the row. Both results
/// are compared first: throws internal when they differ by more than rounding.
void add_kernel_rows(std::vector<Row>& rows, const KernelWorkload& workload);

}  // namespace heddle::bench
