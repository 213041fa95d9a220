// The host's side of heddle-compile: finding the program, one running helper, and the pool of warm
// ones. HelperPool may be used from any thread; a Helper from one at a time.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "files/temp_dir.hpp"
#include "jit/system/process.hpp"
#include "jit/toolchain/compiler.hpp"
#include "jit/toolchain/helper_wire.hpp"

namespace heddle::jit {

/// Where heddle-compile is looked for, in this order; an explicit place is the only one. All others
/// follow from where this library lies: whoever may write there may run code as its user anyway.
[[nodiscard]] std::vector<std::filesystem::path> helper_places(const ToolOptions& options);
/// The directory of a library (or program) that the kernel says is mapped from one file, and the
/// loader loaded from another name: of the file that was replaced since, the kernel's says so,
/// "/lib/libheddle.so (deleted)", and is none. nullopt where neither is an absolute path of a file.
[[nodiscard]] std::optional<std::filesystem::path> code_directory(
    const std::filesystem::path& mapped, const std::filesystem::path& loaded);
/// Throws Error(unavailable) naming all places and the setting that overrides them.
[[nodiscard]] std::filesystem::path find_helper(const ToolOptions& options);
/// Whether find_helper() finds it, and if not why.
[[nodiscard]] Status helper_status(const ToolOptions& options);
/// Its file, for keys; "missing" where there is none, of which building will say so.
[[nodiscard]] std::string helper_stamp(const ToolOptions& options);
/// CompileRequest::seconds_max: a while longer than the host, which ends a slow helper itself, as
/// the helper's own alarm is for when there is no host any more.
[[nodiscard]] std::uint32_t helper_seconds(const Patience& patience);

/// One running heddle-compile with its private directory. Destruction kills it.
class Helper {
 public:
  /// Starts it and shakes hands. Throws Error(unavailable), Error(deadline), or Error(cancelled).
  Helper(const ToolOptions& options, const Patience& patience);

  /// Throws Error(compile_failed) when it died, Error(deadline) when it was too slow,
  /// Error(cancelled); with its last words, and the helper is of no use afterwards.
  [[nodiscard]] wire::CompileReply compile(const wire::CompileRequest& request,
                                           const Patience& patience);

  [[nodiscard]] bool reusable();
  /// Whether it has been told to compile something before.
  [[nodiscard]] bool is_used() const noexcept { return compiles_ != 0; }
  [[nodiscard]] const wire::Hello& hello() const noexcept { return hello_; }
  /// What it has printed since the last call.
  [[nodiscard]] std::string take_output() { return child_.take_output(); }
  /// Lets go of a helper that belongs to the process we were forked from.
  void abandon() noexcept;

 private:
  wire::Bytes receive_frame(wire::Kind kind, const Patience& patience, ErrorCode broken);
  [[noreturn]] void fail(ErrorCode code, const std::string& what);
  [[noreturn]] void give_up(const Patience& patience, const char* what);

  std::filesystem::path path_;
  TempDir directory_;
  Child child_;
  wire::Hello hello_;
  std::size_t compiles_ = 0;
};

/// Warm helpers, grown on demand up to the number of CPUs. Idle ones wait in a read.
class HelperPool {
 public:
  explicit HelperPool(ToolOptions options);
  ~HelperPool();
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  /// A helper for one thread's use; goes back to the pool, or is ended when it is not reusable.
  class Lease {
   public:
    Lease(HelperPool& pool, std::unique_ptr<Helper> helper)
        : pool_(pool), helper_(std::move(helper)) {}
    ~Lease() { pool_.give_back(std::move(helper_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Helper* operator->() const noexcept { return helper_.get(); }

   private:
    HelperPool& pool_;
    std::unique_ptr<Helper> helper_;
  };

  enum class Want : std::uint8_t {
    any,
    unused,  ///< one that has compiled nothing: a new one
  };

  /// Waits for a free helper, or starts one. Throws as Helper(), and Error(unavailable) in a
  /// process forked from the one that made the pool.
  [[nodiscard]] Lease lease(const Patience& patience, Want want = Want::any);

 private:
  void give_back(std::unique_ptr<Helper> helper) noexcept;

  const ToolOptions options_;
  const pid_t owner_;
  const std::size_t helpers_max_;
  std::mutex mutex_;
  std::condition_variable_any freed_;
  std::vector<std::unique_ptr<Helper>> idle_;  // guarded by mutex_
  std::size_t leased_ = 0;                     // guarded by mutex_
};

}  // namespace heddle::jit
