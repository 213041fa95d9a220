// See cpu_perf_map.hpp.
//
// perf reads the map only for anonymous memory. For code in a file, perf reads the file, and it
// cannot open a memfd. The pages of the code are therefore made anonymous first.
#include "devices/cpu_perf_map.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "files/descriptor.hpp"
#include "heddle/status.hpp"

namespace heddle::dev {
namespace {

using files::errno_text;
using files::FileDescriptor;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::unavailable,
              fmt::format("{}: {} (HEDDLE_PERF_MAP asks for it)", what, errno_text(errno)));
}

struct Pages {
  std::uintptr_t begin = 0, end = 0;
};

/// The executable pages that contain `inside`.
Pages pages_of(std::uintptr_t inside) {
  struct Search {
    std::uintptr_t inside;
    Pages found;
  } search{inside, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
        for (int k = 0; k < library->dlpi_phnum; ++k) {
          const ElfW(Phdr)& segment = library->dlpi_phdr[k];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
          const std::uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
          const std::uintptr_t end = begin + segment.p_memsz;
          if (wanted.inside >= begin && wanted.inside < end)
            wanted.found = {begin / page * page, (end + page - 1) / page * page};
        }
        return wanted.found.end == 0 ? 0 : 1;
      },
      &search);
  return search.found;
}

/// Replaces the pages by anonymous copies at the same addresses.
void make_anonymous(const Pages& pages) {
  void* const at = reinterpret_cast<void*>(pages.begin);
  const std::size_t bytes = pages.end - pages.begin;
  void* const copy =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) fail("cannot copy a kernel's code");
  std::memcpy(copy, at, bytes);
  // Made executable at a temporary address first: where a system forbids this (prctl(2),
  // PR_SET_MDWE), the code stays as it was.
  if (mprotect(copy, bytes, PROT_READ | PROT_EXEC) == 0 &&
      mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at)
    return;
  const int error = errno;
  munmap(copy, bytes);
  errno = error;
  fail("cannot make a kernel's code anonymous");
}

}  // namespace

std::filesystem::path perf_map_path() { return fmt::format("/tmp/perf-{}.map", getpid()); }

void write_perf_map(const std::vector<NamedFunction>& functions) {
  std::string lines;
  Pages done;
  for (const auto& [function, bytes, name] : functions) {
    const auto start = reinterpret_cast<std::uintptr_t>(function);
    if (start < done.begin || start >= done.end) make_anonymous(done = pages_of(start));
    lines += fmt::format("{:x} {:x} {}\n", start, bytes, name);
  }
  // Every user may write into the directory: links are not followed, and files of other users, or
  // files with a second name, are refused. A single write keeps lines of several threads, or of
  // other compilers in the process, whole.
  const std::filesystem::path path = perf_map_path();
  const FileDescriptor file(open(
      path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  struct stat about{};
  if (!file || fstat(file.get(), &about) != 0) fail("cannot open " + path.string());
  errno = EPERM;
  if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || about.st_nlink != 1)
    fail("cannot use " + path.string());
  errno = files::write_all(file.get(), std::as_bytes(std::span(lines)));
  if (errno != 0) fail("cannot write " + path.string());
}

}  // namespace heddle::dev
