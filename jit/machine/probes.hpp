// The measurements of the values of a machine profile. One thread; some values start threads, and
// all measurements need an otherwise idle machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "jit/machine/profile.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

class MachineProbes {
 public:
  /// Allocates four times the last-level cache, 32 to 256 MiB, and takes some 0.3 s. Throws
  /// std::bad_alloc.
  explicit MachineProbes(const Target& target);
  MachineProbes(const MachineProbes&) = delete;
  MachineProbes& operator=(const MachineProbes&) = delete;

  /// Measures a value once, within some 0.3 s; nullopt where the value needs two processors and
  /// there is one, infinite where the second processor was not available. Throws Error(unavailable)
  /// where no thread can be started.
  [[nodiscard]] std::optional<double> operator()(const MachineValue& value);

 private:
  /// The chain that memory_load_ns follows: each line holds the number of the next line.
  struct Line {
    alignas(64) std::uint64_t next;
  };

  [[nodiscard]] double copy_mb_s(std::size_t bytes);
  [[nodiscard]] double all_copy_mb_s();
  [[nodiscard]] double memory_load_ns();

  struct Free {
    void operator()(Line* lines) const noexcept;
  };
  using Lines = std::unique_ptr<Line[], Free>;
  [[nodiscard]] static Lines make_lines(std::size_t count);

  const std::size_t l2_bytes_, l3_bytes_, lines_;
  Lines from_, to_;
  std::uint64_t at_ = 0;
};

}  // namespace heddle::jit
