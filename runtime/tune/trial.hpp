// A trial: codes of one program on one device, with the same memory and contents for all, so that
// their results and times can be compared. One thread; it waits for the device.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "heddle/device.hpp"
#include "heddle/host_array.hpp"
#include "heddle/routine.hpp"
#include "heddle/tune.hpp"

namespace heddle::rt {

class Trial {
 public:
  /// Takes memory for what `model` reads and writes, and runs it: its results are what the others
  /// are compared with. Throws what linking and running throw.
  Trial(Device device, const Code& model, const CompileOptions& options);

  /// Links another one, and compares its results: bit for bit, or within what another order of
  /// sums may make of them. `measured`: they are the same, and it is the next of run(); else
  /// `different` or `failed`.
  [[nodiscard]] TuneVerdict add(const Code& code, bool exact);
  /// Runs the model (0), or one of those that were added, so many times. Throws what that throws.
  void run(std::size_t which, std::size_t times) const;

 private:
  /// What a program stores, and what is put there before a run that is compared.
  struct Stored {
    Tensor tensor;
    std::optional<HostArray> contents;  ///< none: its host storage has them
    bool is_written;
  };

  [[nodiscard]] Routine linked(const Code& code) const;
  void fill(const Routine& routine) const;
  [[nodiscard]] std::vector<HostArray> results(const Routine& routine) const;

  const Device device_;
  Context base_;  ///< has the memory that they share
  std::vector<Stored> stored_;
  Bindings bindings_;
  std::vector<Routine> routines_;
  std::vector<HostArray> expected_;
};

}  // namespace heddle::rt
