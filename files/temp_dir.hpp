// Files that compiling leaves on disk for a while: private temporary directories, the kept sources
// of failed compiles, and debug dumps. Any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/descriptor.hpp"

namespace heddle::files {

/// Some 50 ms on a local disk.
inline constexpr std::size_t swept_entries_max = 10'000;

/// A directory of mode 0700 that vanishes with its contents on destruction. What killed processes
/// left goes when another process makes its first one there, which looks at swept_entries_max
/// entries at most, those that it removes included: a lock, held as long as the directory is used,
/// tells the dead from the living, whatever pid namespace or machine they are of.
class TempDir {
 public:
  /// Below temp_root(where). Throws Error(unavailable) naming the directory and the reason.
  explicit TempDir(const std::filesystem::path& where);
  ~TempDir();
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Leaves the directory where it is: for a process forked from the one that owns it.
  void abandon() noexcept {
    path_.clear();
    lock_.reset();
  }

 private:
  std::filesystem::path path_;
  FileDescriptor lock_;
};

/// Where temporary directories are made: where was asked for, else /tmp.
[[nodiscard]] std::filesystem::path temp_root(const std::filesystem::path& asked);

/// What to do where such a directory, or a file in it, cannot be made or written.
inline constexpr std::string_view temp_dir_advice =
    " (set HEDDLE_TEMP_DIR or TMPDIR to a writable directory with room)";
inline constexpr std::string_view dump_dir_advice =
    " (set HEDDLE_DUMP_DIR to a directory of your own, with room, that nobody else may write, or "
    "unset it)";

/// Creates or replaces a file of mode 0600. Throws Error(unavailable) naming file and reason, with
/// `advice`; then half a file is not left.
void write_file(const std::filesystem::path& path, std::string_view text,
                std::string_view advice = {});
/// Reads a whole regular file. Throws Error(unavailable) naming file and reason, exhausted above
/// `bytes_max`.
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& path,
                                               std::size_t bytes_max);

/// At most this many sources of failed compiles are kept; the oldest go first.
inline constexpr std::size_t kept_sources_max = 32;

/// Keeps a source that did not compile in a directory of mode 0700 below temp_root(where). The same
/// source is kept once. Returns where, or a sentence saying why it could not be kept; never throws
/// but for memory.
[[nodiscard]] std::string keep_source(const std::filesystem::path& where,
                                      std::string_view unit_name, std::string_view extension,
                                      std::string_view source);

/// Writes `text` to `folder` as UNIT.EXTENSION, or UNIT-2.EXTENSION and so on where this process
/// wrote another text there, unless `folder` is empty: no dumps are asked for. Throws as
/// replace_own_file(). Any thread.
void dump(const std::filesystem::path& folder, std::string_view unit_name,
          std::string_view extension, std::string_view text);

/// `name` as a file name stem: bounded, [A-Za-z0-9_.-], never empty.
[[nodiscard]] std::string file_stem(std::string_view name);

}  // namespace heddle::files
