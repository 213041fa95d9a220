// Programs that simulated runs of the tensor runtime are made of, with what each computes. Compiled
// once in the process, by a compiler of nothing: a played device (played_device.hpp) computes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/code.hpp"
#include "heddle/expr.hpp"
#include "heddle/host_array.hpp"
#include "heddle/status.hpp"
#include "heddle/tensor.hpp"

namespace heddle::stress {

/// Elements of each tensor.
inline constexpr std::size_t num_cells = 4;

/// What programs compute with: four tensors, and what the merge buffer holds.
enum class Operand : std::uint8_t { x, y, z, h, merged };
inline constexpr std::size_t num_tensors = 4, num_operands = 5;

/// to[k] = constant + the sum of factors[o] * o[k], for all k, or for one row. Integers wrap.
struct Formula {
  const char* name;
  Operand to;
  std::array<std::uint64_t, num_operands> factors;  ///< 0: not read
  std::uint64_t constant;
  std::optional<Operand> merges{};  ///< the tensor that the merge buffer is to hold
  bool one_row = false;             ///< that of the static index
  bool twice = false;               ///< as two steps, and a call of the host between them

  [[nodiscard]] bool reads(Operand operand) const noexcept {
    return factors[static_cast<std::size_t>(operand)] != 0;
  }
  [[nodiscard]] bool uses(Operand tensor) const noexcept { return to == tensor || reads(tensor); }
  /// All of its target, without reading that.
  [[nodiscard]] bool overwrites() const noexcept { return !reads(to) && !one_row; }
};

struct RuntimeProgram {
  Formula formula;
  Code code;
};

/// How a kernel is called: entry k of its arguments is operands[k].
struct RuntimeKernel {
  const Formula* formula;
  std::vector<Operand> operands;
};

struct RuntimePrograms {
  std::vector<Tensor> tensors;  ///< by Operand
  HostArray host;               ///< storage of h
  StaticIndex row;
  std::vector<RuntimeProgram> programs;
  /// The kernel of that symbol; null: there is none.
  [[nodiscard]] const RuntimeKernel* kernel(const std::string& symbol) const noexcept;
  std::vector<std::pair<std::string, RuntimeKernel>> kernels;
};

/// For all simulations; made by the first call, which must be outside of one.
[[nodiscard]] const RuntimePrograms& runtime_programs();
/// Called by the step in the middle of a program of two; set by the simulation that runs.
void set_host_step(std::function<Status()> step);

}  // namespace heddle::stress
