// See module_loader.hpp.
#include "jit/load/module_loader.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "jit/emit/emit.hpp"
#include "jit/load/perf_map.hpp"
#include "jit/system/process.hpp"
#include "jit/system/temp_dir.hpp"

namespace heddle::jit {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t machine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t machine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr std::uint16_t machine = EM_PPC64;
#else
#error "heddle's kernels are 64-bit ELF libraries; name this machine's ELF number here"
#endif

/// The library's file must be of this byte order, as the numbers in its headers are read as they
/// lie.
constexpr unsigned char byte_order =
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

struct CloseLibrary {
  void operator()(void* handle) const noexcept { dlclose(handle); }
};
using LibraryHandle = std::unique_ptr<void, CloseLibrary>;

struct Unmap {
  std::size_t bytes;
  void operator()(void* mapped) const noexcept { munmap(mapped, bytes); }
};

class LoadedModule final : public Module {
 public:
  LoadedModule(FileDescriptor file, LibraryHandle handle,
               std::vector<heddle_kernel_function> functions, ModuleInfo info)
      : file_(std::move(file)),
        handle_(std::move(handle)),
        functions_(std::move(functions)),
        info_(std::move(info)) {}

  heddle_kernel_function function(std::size_t k) const noexcept override { return functions_[k]; }
  const std::string& source() const noexcept override { return info_.source; }
  std::chrono::nanoseconds compile_time() const noexcept override { return info_.compile_time; }

 private:
  FileDescriptor file_;  // for gdb alone, where a perf map is wanted
  LibraryHandle handle_;
  std::vector<heddle_kernel_function> functions_;
  ModuleInfo info_;
};

template <class... A>
Status bad(fmt::format_string<A...> format, A&&... args) {
  return Status(ErrorCode::compile_failed, fmt::format(format, std::forward<A>(args)...));
}

/// Copies a header out of the bytes, which need not be aligned for it.
template <class T>
std::optional<T> read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Of the library: compiled anew it may be another.
[[noreturn]] void refuse(const ModuleInfo& info, std::string_view text) {
  throw Error(
      ErrorCode::compile_failed,
      fmt::format("the library made for unit '{:.200}' is unusable: {}", info.unit_name, text));
}

void check_sum(std::span<const std::byte> bytes, const Library& library, const ModuleInfo& info) {
  if (checksum(bytes) != library.sum)
    refuse(info, "it was damaged on its way (its checksum differs); compile again");
}

/// The library's bytes in an anonymous file that nobody can change any more.
FileDescriptor seal(const Library& library, const ModuleInfo& info) {
  const auto fail = [](const char* what) {
    throw Error(ErrorCode::unavailable, fmt::format("{}: {}", what, errno_text(errno)));
  };
  const std::string name = "heddle:" + info.unit_name.substr(0, 200);
  FileDescriptor fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) fail("memfd_create");
  for (std::size_t at = 0; at < library.bytes.size();) {
    const ssize_t n = write(fd.get(), library.bytes.data() + at, library.bytes.size() - at);
    if (n > 0) {
      at += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      fail("writing the library to memory");
    }
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    fail("sealing the library");
  void* mapped = mmap(nullptr, library.bytes.size(), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) fail("mapping the library");
  const std::unique_ptr<void, Unmap> mapping(mapped, Unmap{library.bytes.size()});
  check_sum({static_cast<const std::byte*>(mapped), library.bytes.size()}, library, info);
  return fd;
}

/// Puts the library in the place of what was called `path`, which may still be mapped.
void keep_library(const Library& library, const std::string& path) {
  const std::string temporary = path + "-" + std::to_string(getpid());
  write_file(temporary,
             {reinterpret_cast<const char*>(library.bytes.data()), library.bytes.size()});
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error)
    throw Error(ErrorCode::unavailable,
                fmt::format("cannot keep library '{}': {}", path, error.message()));
}

/// The same file under a number that this process will hardly use again. Debuggers open what a
/// library was loaded from: by then the number is free, and another file or pipe might have it.
FileDescriptor far_away(FileDescriptor fd) {
  constexpr int number_min = 512;
  FileDescriptor far(fcntl(fd.get(), F_DUPFD_CLOEXEC, number_min));
  return far ? std::move(far) : std::move(fd);
}

/// Our directory in /proc, which other processes may follow; not "self", which is another for each.
std::string process_directory() {
  std::error_code error;
  const auto process = std::filesystem::read_symlink("/proc/self", error);
  return "/proc/" + (error ? std::string("self") : process.string());
}

/// Tells apart what is loaded: dlopen takes an equal name for the same library.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> counter{0};
  // relaxed: only distinctness matters, the counter publishes nothing (pairs with itself)
  return counter.fetch_add(1, std::memory_order_relaxed);
}

/// A path of the descriptor that no library loaded before has, as descriptor numbers are used
/// again. "./" and "/" spell the bits of a number.
std::string unique_path(int fd) {
  std::string path = process_directory() + "/fd/";
  for (std::uint64_t n = next_number(); n != 0; n >>= 1) path += (n & 1) != 0 ? "./" : "/";
  return path + std::to_string(fd);
}

/// Why the system lets nothing be loaded from `path`, whatever lies there; empty: it does.
std::string obstacle(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fmt::format("'{}' cannot be opened: {}", path, errno_text(errno));
  constexpr std::size_t some = 4096;
  void* mapped = mmap(nullptr, some, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED)
    return fmt::format("'{}' cannot be mapped as code: {}", path, errno_text(errno));
  munmap(mapped, some);
  return {};
}

/// What the segments of a library take in memory, whose headers are in order.
std::uint64_t memory_bytes(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  for (std::uint64_t k = 0; k < header->e_phnum; ++k) {
    const auto segment = read_at<Elf64_Phdr>(bytes, header->e_phoff + k * sizeof(Elf64_Phdr));
    if (segment->p_type == PT_LOAD) sum += segment->p_memsz;
  }
  return sum;
}

/// Whether the system has no memory for a library that dlopen() failed on, as that `said`.
bool lacks_memory(std::uint64_t bytes, const std::string& said) {
  if (said.find(errno_text(ENOMEM)) != std::string::npos) return true;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return errno == ENOMEM;
  munmap(mapped, bytes);
  return false;
}

/// Throws Error(unavailable) when the system is in the way, exhausted when there is no memory,
/// compile_failed when the library is at fault.
LibraryHandle open_library(const std::string& path, const Library& library,
                           const ModuleInfo& info) {
  LibraryHandle handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle) return handle;
  const std::string said = dlerror();
  if (const std::string why = obstacle(path); !why.empty())
    throw Error(ErrorCode::unavailable, why);
  if (const std::uint64_t bytes = memory_bytes(library.bytes); lacks_memory(bytes, said)) {
    throw Error(ErrorCode::exhausted,
                fmt::format("there is no memory to load unit '{:.200}', which takes {} bytes: {}",
                            info.unit_name, bytes, said));
  }
  refuse(info, "dlopen: " + said);
}

/// Loads it where memory files cannot be (no /proc, no sealing): from a file in a fresh directory
/// of this user's alone, checked there and removed at once. Between check and load it could be
/// changed by processes of this user alone, which could change our memory as well.
LibraryHandle open_from_file(const Library& library, const ModuleInfo& info,
                             const Status& obstacle) try {
  const TempDir directory(info.temp_dir);
  const auto path = directory.path() / fmt::format("unit-{}.so", next_number());
  write_file(path, {reinterpret_cast<const char*>(library.bytes.data()), library.bytes.size()});
  check_sum(read_file(path, library_bytes_max), library, info);
  return open_library(path.string(), library, info);
} catch (const Error& error) {
  if (error.code() != ErrorCode::unavailable) throw;
  throw Error(error.code(),
              fmt::format("cannot load unit '{:.200}', which is sound: from memory: {}; from a "
                          "temporary file: {}; mount /proc, or set HEDDLE_TEMP_DIR to a directory "
                          "that may hold code",
                          info.unit_name, obstacle.message(), error.status().message()));
}

}  // namespace

Checksum checksum(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t sum = XXH3_128bits(bytes.data(), bytes.size());
  return {sum.high64, sum.low64};
}

Status check_library(std::span<const std::byte> bytes) {
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    return bad("it is not an ELF file ({} bytes)", bytes.size());
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != byte_order)
    return bad("it is not a 64-bit ELF file of this byte order");
  if (header->e_machine != machine)
    return bad("it is for ELF machine {} (this is {})", header->e_machine, machine);
  if (header->e_type != ET_DYN) return bad("it is not a shared library");
  if (header->e_phnum == 0 || header->e_phentsize != sizeof(Elf64_Phdr))
    return bad("it has no program headers");
  const auto within = [&bytes](std::uint64_t offset, std::uint64_t size) {
    return offset <= bytes.size() && size <= bytes.size() - offset;
  };
  for (std::uint64_t k = 0; k < header->e_phnum; ++k) {
    const auto segment = read_at<Elf64_Phdr>(bytes, header->e_phoff + k * sizeof(Elf64_Phdr));
    if (!segment || !within(segment->p_offset, segment->p_filesz))
      return bad("segment {} lies outside its {} bytes: the file is cut short", k, bytes.size());
  }
  if (header->e_shnum != 0 && header->e_shentsize != sizeof(Elf64_Shdr))
    return bad("its section headers have a foreign size");
  for (std::uint64_t k = 0; k < header->e_shnum; ++k) {
    const auto section = read_at<Elf64_Shdr>(bytes, header->e_shoff + k * sizeof(Elf64_Shdr));
    if (!section ||
        (section->sh_type != SHT_NOBITS && !within(section->sh_offset, section->sh_size)))
      return bad("section {} lies outside its {} bytes: the file is cut short", k, bytes.size());
  }
  return {};
}

std::shared_ptr<const Module> load_module(const Library& library, ModuleInfo info) {
  if (const Status status = check_library(library.bytes); !status.ok())
    refuse(info, status.message());
  FileDescriptor fd;
  LibraryHandle handle;
  if (const std::string path = info.library_file.string(); !path.empty()) {
    keep_library(library, path);
    handle = open_library(path, library, info);
  } else {
    try {
      fd = far_away(seal(library, info));
      handle = open_library(unique_path(fd.get()), library, info);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      handle = open_from_file(library, info, error.status());
    }
  }
  const auto* abi = static_cast<const std::uint32_t*>(dlsym(handle.get(), unit_abi_symbol));
  if (abi == nullptr) refuse(info, fmt::format("it does not define {}", unit_abi_symbol));
  if (*abi != HEDDLE_KERNEL_ABI)
    refuse(info, fmt::format("its kernel ABI is {} (expected {})", *abi, HEDDLE_KERNEL_ABI));
  std::vector<heddle_kernel_function> functions;
  for (const std::string& name : info.kernels) {
    void* symbol = dlsym(handle.get(), kernel_symbol(name).c_str());
    if (symbol == nullptr) refuse(info, fmt::format("it does not define kernel '{}'", name));
    functions.push_back(reinterpret_cast<heddle_kernel_function>(symbol));
  }
  if (info.perf_map && info.library_file.empty()) {
    write_perf_map(functions);
  } else {
    fd.reset();
  }
  return std::make_shared<LoadedModule>(std::move(fd), std::move(handle), std::move(functions),
                                        std::move(info));
}

}  // namespace heddle::jit
