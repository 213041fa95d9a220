// See cache/key.hpp.
#include "jit/cache/key.hpp"

#include <blake2.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "heddle/status.hpp"
#include "scheduler/threads/never_destroyed.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace heddle::jit {

KeyHasher& KeyHasher::add(std::string_view field) {
  bytes_ += fmt::format("{}:", field.size());
  bytes_ += field;
  return *this;
}

KeyHasher& KeyHasher::add(const CompileKey& key) {
  return add(std::string_view(reinterpret_cast<const char*>(key.data()), key.size()));
}

CompileKey KeyHasher::finish() const {
  CompileKey key;
  if (blake2b(reinterpret_cast<std::uint8_t*>(key.data()), bytes_.data(), nullptr, key.size(),
              bytes_.size(), 0) != 0) {
    throw Error(ErrorCode::internal, "BLAKE2b refused to hash");
  }
  return key;
}

std::string to_hex(const CompileKey& key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : key) {
    text += digits[std::to_integer<std::size_t>(byte >> 4)];
    text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

std::string without_comments(std::string_view text, std::string_view mark) {
  std::string bare;
  bare.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = line.substr(0, line.find(mark));
    while (line.ends_with(' ')) line.remove_suffix(1);
    bare += line;
    bare += '\n';
  }
  return bare;
}

namespace {

/// A file as the last look found it. Whatever gives the path another file changes one of these.
struct SeenFile {
  dev_t device;
  ino_t inode;
  off_t bytes;
  std::int64_t written_s, written_ns, changed_s, changed_ns;

  explicit SeenFile(const struct stat& info)
      : device(info.st_dev),
        inode(info.st_ino),
        bytes(info.st_size),
        written_s(info.st_mtim.tv_sec),
        written_ns(info.st_mtim.tv_nsec),
        changed_s(info.st_ctim.tv_sec),
        changed_ns(info.st_ctim.tv_nsec) {}
  friend bool operator==(const SeenFile&, const SeenFile&) = default;
};

/// The stamps of files that were looked at. Following the links of a path takes a system call for
/// each of its parts.
struct KnownStamps {
  struct Known {
    SeenFile file;
    std::string stamp;
  };
  std::mutex mutex;
  std::map<std::string, Known> by_path;  // guarded by mutex
};

}  // namespace

std::string file_stamp(const std::filesystem::path& path) {
  constexpr std::size_t known_max = 64;
  static sched::NeverDestroyed<KnownStamps> all;
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return path.string() + " missing";
  const SeenFile seen(info);
  KnownStamps& known = *all;
  // A child of a process whose other thread held the mutex does without.
  const std::unique_lock lock(known.mutex, std::try_to_lock);
  if (lock) {
    const auto at = known.by_path.find(path.native());
    if (at != known.by_path.end() && at->second.file == seen) return at->second.stamp;
  }
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) return path.string() + " missing";
  std::string stamp =
      fmt::format("{} {} {}.{:09}", file.string(), seen.bytes, seen.written_s, seen.written_ns);
  if (lock) {
    if (known.by_path.size() >= known_max) known.by_path.clear();
    known.by_path.insert_or_assign(path.native(), KnownStamps::Known{seen, stamp});
  }
  return stamp;
}

namespace {

#if defined(__x86_64__)
/// The leaves of cpuid that describe instruction sets. Registers with numbers of the current core,
/// such as its APIC id, are left out. (Intel's Software Developer's Manual, volume 2A, and AMD's
/// CPUID Specification.)
std::string instruction_sets() {
  struct Leaf {
    unsigned leaf, subleaf;
    bool a, b, c, d;
  };
  constexpr Leaf leaves[] = {{0, 0, false, true, true, true},       // vendor
                             {1, 0, true, false, true, true},       // model, sets
                             {7, 0, false, true, true, true},       // sets
                             {7, 1, true, true, true, true},        // sets
                             {0xd, 1, true, false, false, false},   // xsave
                             {0x19, 0, false, true, false, false},  // key locker
                             {0x24, 0, false, true, false, false},  // AVX10
                             {0x80000001, 0, false, false, true, true},
                             {0x80000008, 0, false, true, false, false}};
  // xgetbv, where present, tells if the kernel saves the upper parts of vectors.
  constexpr unsigned osxsave = 1u << 27;
  std::string text;
  bool saves = false;
  for (const Leaf& leaf : leaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(leaf.leaf, leaf.subleaf, &a, &b, &c, &d);
    saves = saves || (leaf.leaf == 1 && (c & osxsave) != 0);
    text += fmt::format("{:x}.{:x}.{:x}.{:x} ", leaf.a ? a : 0, leaf.b ? b : 0, leaf.c ? c : 0,
                        leaf.d ? d : 0);
  }
  unsigned low = 0, high = 0;
  if (saves) asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return text + fmt::format("{:x}.{:x}", high, low);
}
#else
std::string instruction_sets() { return {}; }
#endif

}  // namespace

const std::string& processor_stamp() {
  static sched::NeverDestroyed<const std::string> stamp(
      fmt::format("{} {:x} {:x}", instruction_sets(), getauxval(AT_HWCAP), getauxval(AT_HWCAP2)));
  return *stamp;
}

}  // namespace heddle::jit
