// A trial: codes of one program on one device, with the same memory and contents, to compare
// results and times. One thread; waits for the device.
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
  /// Allocates the memory that `model` reads and writes, and runs the model: its results are the
  /// reference. Throws the errors of linking and running.
  Trial(Device device, const Code& model, const CompileOptions& options);

  /// Links a code, runs it once, and compares its results with the reference: with `exact` numbers
  /// must be identical (every NaN counts as the same number), otherwise floats may differ by the
  /// error of reordered sums. `measured`: the results agree, and the code gets the next index for
  /// run(); otherwise `different` or `failed`.
  [[nodiscard]] TuneVerdict add(const Code& code, bool exact);
  /// Runs the model (0) or an added code `times` times. Throws the errors of the runs.
  void run(std::size_t which, std::size_t times) const;

 private:
  /// A tensor that the program stores, and its contents before a compared run.
  struct Stored {
    Tensor tensor;
    std::optional<HostArray> contents;  ///< unset: the tensor's host storage holds them
    bool is_written;
  };

  [[nodiscard]] Routine linked(const Code& code) const;
  void fill(const Routine& routine) const;
  [[nodiscard]] std::vector<HostArray> results(const Routine& routine) const;

  const Device device_;
  Context base_;  ///< has the shared memory
  std::vector<Stored> stored_;
  Bindings bindings_;
  std::vector<Routine> routines_;
  std::vector<HostArray> expected_;
};

}  // namespace heddle::rt
