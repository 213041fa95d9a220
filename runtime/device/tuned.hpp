// Tuned choices known to a backend: looked up once per program, in the folder of the kernel cache.
// Any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "heddle/tune.hpp"
#include "jit/code/code.hpp"
#include "jit/tune/tuned_file.hpp"

namespace heddle::rt {

class Tuned {
 public:
  /// `folder`: the kernel cache's; empty: no folder. `machine`: see jit::TunedFor.
  Tuned(std::filesystem::path folder, std::string machine, const jit::Target& target)
      : folder_(std::move(folder)), machine_(std::move(machine)), target_(target) {}

  /// The schedule stored for a program; null: none. `program`: program_key() without choices. A
  /// file that cannot be used is logged once as a warning.
  [[nodiscard]] std::shared_ptr<const TunedSchedule> find(const jit::CompileKey& program,
                                                          bool reassociate);
  /// Stores `report` in memory and, if there is a folder, in a file; returns the report with the
  /// file's name or the problem.
  std::shared_ptr<const TunedSchedule> keep(const jit::CompileKey& program, bool reassociate,
                                            TunedSchedule report);

 private:
  [[nodiscard]] jit::TunedFor whose(const jit::CompileKey& program, bool reassociate) const;

  /// Above this number of programs, entries without a schedule are dropped.
  static constexpr std::size_t known_max = 10'000;

  const std::filesystem::path folder_;
  const std::string machine_;
  const jit::Target target_;
  std::mutex mutex_;
  /// Null: the lookup found no schedule. Guarded by mutex_.
  std::map<jit::CompileKey, std::shared_ptr<const TunedSchedule>> known_;
};

}  // namespace heddle::rt
