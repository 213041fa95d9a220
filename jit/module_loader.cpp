// See module_loader.hpp.
#include "jit/module_loader.hpp"

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

#include "jit/emit.hpp"
#include "jit/perf_map.hpp"
#include "jit/process.hpp"
#include "jit/temp_dir.hpp"

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

/// The library's bytes in an anonymous file that nobody can change any more.
FileDescriptor seal(const Library& library, const ModuleInfo& info) {
  const auto fail = [&info](const char* what) {
    throw Error(ErrorCode::unavailable, fmt::format("cannot load unit '{:.200}': {}: {}",
                                                    info.unit_name, what, errno_text(errno)));
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
  const Checksum sealed = checksum({static_cast<const std::byte*>(mapped), library.bytes.size()});
  munmap(mapped, library.bytes.size());
  if (sealed != library.sum) {
    throw Error(
        ErrorCode::compile_failed,
        fmt::format("the library made for unit '{:.200}' is unusable: it was damaged on its way "
                    "(its checksum differs); compile again",
                    info.unit_name));
  }
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

/// A path of the descriptor that no library loaded before has: dlopen takes an equal name for the
/// same library, but descriptor numbers are used again. "./" and "/" spell the bits of a counter.
std::string unique_path(int fd) {
  static std::atomic<std::uint64_t> counter{0};
  // relaxed: only distinctness matters, the counter publishes nothing (pairs with itself)
  std::uint64_t n = counter.fetch_add(1, std::memory_order_relaxed);
  std::string path = process_directory() + "/fd/";
  for (; n != 0; n >>= 1) path += (n & 1) != 0 ? "./" : "/";
  return path + std::to_string(fd);
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
  const auto refuse = [&info](const std::string& text) {
    throw Error(
        ErrorCode::compile_failed,
        fmt::format("the library made for unit '{:.200}' is unusable: {}", info.unit_name, text));
  };
  if (const Status status = check_library(library.bytes); !status.ok())
    refuse(std::string(status.message()));
  FileDescriptor fd;
  std::string path = info.library_file.string();
  if (path.empty()) {
    fd = far_away(seal(library, info));
    path = unique_path(fd.get());
  } else {
    keep_library(library, path);
  }
  LibraryHandle handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle) refuse(fmt::format("dlopen: {}", dlerror()));
  const auto* abi = static_cast<const std::uint32_t*>(dlsym(handle.get(), unit_abi_symbol));
  if (abi == nullptr) refuse(fmt::format("it does not define {}", unit_abi_symbol));
  if (*abi != HEDDLE_KERNEL_ABI)
    refuse(fmt::format("its kernel ABI is {} (expected {})", *abi, HEDDLE_KERNEL_ABI));
  std::vector<heddle_kernel_function> functions;
  for (const std::string& name : info.kernels) {
    void* symbol = dlsym(handle.get(), kernel_symbol(name).c_str());
    if (symbol == nullptr) refuse(fmt::format("it does not define kernel '{}'", name));
    functions.push_back(reinterpret_cast<heddle_kernel_function>(symbol));
  }
  if (fd && info.perf_map) {
    write_perf_map(functions);
  } else {
    fd.reset();
  }
  return std::make_shared<LoadedModule>(std::move(fd), std::move(handle), std::move(functions),
                                        std::move(info));
}

}  // namespace heddle::jit
