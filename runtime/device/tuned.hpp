// What a backend knows of choices that were tuned: looked up once for each program, in the folder
// of the kernel cache. Any thread.
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
  /// `folder`: of the kernel cache; empty: there is none. `machine`: see jit::TunedFor.
  Tuned(std::filesystem::path folder, std::string machine, const jit::Target& target)
      : folder_(std::move(folder)), machine_(std::move(machine)), target_(target) {}

  /// What was kept for a program: `program` is its program_key() without choices. A file that is
  /// not used is a warning in the log, once. Null: nothing.
  [[nodiscard]] std::shared_ptr<const TunedSchedule> find(const jit::CompileKey& program,
                                                          bool reassociate);
  /// Keeps what was found now, here and, where there is a folder, there; the report says where, or
  /// why not.
  std::shared_ptr<const TunedSchedule> keep(const jit::CompileKey& program, bool reassociate,
                                            TunedSchedule report);

 private:
  [[nodiscard]] jit::TunedFor whose(const jit::CompileKey& program, bool reassociate) const;

  /// So many programs are remembered before those for which nothing was kept are forgotten.
  static constexpr std::size_t known_max = 10'000;

  const std::filesystem::path folder_;
  const std::string machine_;
  const jit::Target target_;
  std::mutex mutex_;
  /// Null: looked for, and there was nothing. Guarded by mutex_.
  std::map<jit::CompileKey, std::shared_ptr<const TunedSchedule>> known_;
};

}  // namespace heddle::rt
