// See kept_text.hpp.
#include "jit/cache/kept_text.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "jit/cache/kernel_cache_file.hpp"

namespace heddle::jit {
namespace {

void read_whole(int file, std::size_t bytes_max, KeptText& kept) {
  std::string text;
  std::array<char, 4096> piece{};
  while (text.size() <= bytes_max) {
    const ssize_t n = ::read(file, piece.data(), piece.size());
    if (n == 0) {
      kept.text = std::move(text);
      return;
    }
    if (n > 0) text.append(piece.data(), static_cast<std::size_t>(n));
    if (n >= 0 || errno == EINTR) continue;
    kept.problem = "it cannot be read: " + errno_text(errno);
    return;
  }
  kept.problem = fmt::format("it is damaged (more than {} bytes)", bytes_max);
}

}  // namespace

KeptText read_kept_text(const std::filesystem::path& folder, const std::string& name,
                        std::size_t bytes_max) {
  KeptText kept;
  if (folder.empty()) return kept;
  kept.file = folder / name;
  CacheTrouble trouble;
  const FileDescriptor directory = open_cache_directory(folder, false, trouble);
  const FileDescriptor file =
      directory ? open_cache_file(directory.get(), name, trouble) : FileDescriptor();
  if (file) {
    read_whole(file.get(), bytes_max, kept);
    static_cast<void>(::futimens(file.get(), nullptr));  // refused for another user's file
  } else if (trouble.reason != &KernelCacheCounters::absent) {
    kept.problem = trouble.text;
    kept.folder_refused = !directory;
  }
  return kept;
}

std::filesystem::path keep_text(const std::filesystem::path& folder, const std::string& name,
                                std::string_view text, std::string_view what) {
  CacheTrouble trouble;
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
  const FileDescriptor directory = open_cache_directory(folder, true, trouble);
  if (!directory || !write_cache_file(directory.get(), name, parts, trouble)) {
    throw Error(ErrorCode::unavailable,
                fmt::format("{} cannot be kept in '{}': {}", what, folder.string(), trouble.text));
  }
  return folder / name;
}

std::size_t remove_kept_texts(const std::filesystem::path& folder, std::string_view prefix,
                              std::size_t most) {
  namespace fs = std::filesystem;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code ignored;  // other processes remove files at the same time
  for (fs::directory_iterator at(folder, ignored), end; at != end; at.increment(ignored)) {
    if (!at->path().filename().native().starts_with(prefix)) continue;
    std::error_code gone;
    const fs::file_time_type used = at->last_write_time(gone);
    if (!gone) found.emplace_back(used, at->path());
  }
  std::ranges::sort(found);
  std::size_t removed = 0;
  for (std::size_t k = 0; k + most < found.size(); ++k)
    removed += fs::remove(found[k].second, ignored) ? 1 : 0;
  return removed;
}

}  // namespace heddle::jit
