// The host's side of heddle-compile: finding the program, one running helper, and the pool of warm
// helpers. HelperPool may be used from any thread; a Helper from one thread at a time.
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

/// The places where heddle-compile is searched, in order; an explicit path is the only place. The
/// other places are relative to this library: a user who may write there may run code as the
/// library's user anyway.
[[nodiscard]] std::vector<std::filesystem::path> helper_places(const ToolOptions& options);
/// The directory of a library or program, given the path in the kernel's map (`mapped`) and the
/// loader's name (`loaded`). The kernel's path of a file replaced since, "/lib/libheddle.so
/// (deleted)", names no file. nullopt where neither is an absolute path of a file.
[[nodiscard]] std::optional<std::filesystem::path> code_directory(
    const std::filesystem::path& mapped, const std::filesystem::path& loaded);
/// Throws Error(unavailable) that names all places and the setting that overrides them.
[[nodiscard]] std::filesystem::path find_helper(const ToolOptions& options);
/// ok if find_helper() succeeds, otherwise the reason.
[[nodiscard]] Status helper_status(const ToolOptions& options);
/// The stamp of the helper's file, for keys; "missing" without a file, which a later build reports.
[[nodiscard]] std::string helper_stamp(const ToolOptions& options);
/// CompileRequest::seconds_max: somewhat longer than the host's limit, because the host ends slow
/// helpers; the helper's own alarm is for a helper without a host.
[[nodiscard]] std::uint32_t helper_seconds(const Patience& patience);

/// One running heddle-compile with a private directory. Destruction kills the process.
class Helper {
 public:
  /// Starts the process and exchanges Hello. Throws Error(unavailable), Error(deadline), or
  /// Error(cancelled).
  Helper(const ToolOptions& options, const Patience& patience);

  /// Throws Error(compile_failed) when the helper died, Error(deadline) when the helper was too
  /// slow, Error(cancelled); each error quotes the helper's last output. The helper is unusable
  /// afterwards.
  [[nodiscard]] wire::CompileReply compile(const wire::CompileRequest& request,
                                           const Patience& patience);

  [[nodiscard]] bool reusable();
  /// True if the helper has received a compile request.
  [[nodiscard]] bool is_used() const noexcept { return compiles_ != 0; }
  [[nodiscard]] const wire::Hello& hello() const noexcept { return hello_; }
  /// The helper's output since the last call.
  [[nodiscard]] std::string take_output() { return child_.take_output(); }
  /// Detaches from a helper that belongs to the parent of this forked process.
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

/// Warm helpers; the pool grows on demand up to the number of CPUs. Idle helpers wait in a read.
class HelperPool {
 public:
  explicit HelperPool(ToolOptions options);
  ~HelperPool();
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  /// A helper for one thread's use. The lease's end returns the helper to the pool, or ends a
  /// helper that is not reusable.
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
    unused,  ///< a new helper, which has compiled nothing
  };

  /// Waits for a free helper, or starts one. Throws like Helper(), and Error(unavailable) in a
  /// process forked from the pool's own process.
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
