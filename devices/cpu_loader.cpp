// Loading on the host: from the bytes of a shared library to functions. Every library is checked
// first, and the checked bytes are the loaded ones: in a sealed memory file, or, if the system has
// no loadable memory files or dumps are requested, in a file that only this user can reach. Any
// thread.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>

#include "devices/cpu_debug_names.hpp"
#include "devices/cpu_perf_map.hpp"
#include "devices/device.hpp"
#include "files/descriptor.hpp"
#include "files/elf.hpp"
#include "files/own_directory.hpp"
#include "files/temp_dir.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle::dev {
namespace {

using files::errno_text;
using files::FileDescriptor;
using files::loader_text;

/// Held by threads that change or walk the dynamic linker's list of libraries, because fork() does
/// not reset the linker's lock. constinit: kernels may be loaded during exit.
constinit sched::ProcessMutex linker_mutex;

struct CloseLibrary {
  void operator()(void* handle) const noexcept {
    const std::lock_guard lock(linker_mutex);
    dlclose(handle);
  }
};
using LibraryHandle = std::unique_ptr<void, CloseLibrary>;

struct Unmap {
  std::size_t bytes;
  void operator()(void* mapped) const noexcept { munmap(mapped, bytes); }
};

class LoadedModule final : public Module {
 public:
  LoadedModule(LibraryHandle handle, std::vector<heddle_kernel_function> functions,
               std::unique_ptr<const DebugNames> names)
      : handle_(std::move(handle)), functions_(std::move(functions)), names_(std::move(names)) {}

  heddle_kernel_function host_function(std::size_t kernel) const noexcept override {
    return functions_[kernel];
  }

 private:
  LibraryHandle handle_;
  std::vector<heddle_kernel_function> functions_;
  std::unique_ptr<const DebugNames> names_;  // null: names are not wanted
};

class NullModule final : public Module {
 public:
  heddle_kernel_function host_function(std::size_t /*kernel*/) const noexcept override {
    return [](const heddle_kernel_args*) {};
  }
};

/// Blames the library: a new compile may produce a different one.
[[noreturn]] void refuse(const LoadOptions& options, std::string_view text) {
  throw Error(
      ErrorCode::compile_failed,
      fmt::format("the library made for unit '{:.200}' is unusable: {}", options.name, text));
}

void check_sum(std::span<const std::byte> bytes, const Image& image, const LoadOptions& options) {
  if (checksum(bytes) != image.sum())
    refuse(options, "it was damaged on its way (its checksum differs); compile again");
}

/// The library's bytes in an anonymous file that can no longer change.
FileDescriptor seal(const Image& image, const LoadOptions& options) {
  const auto fail = [](const char* what, int error) {
    throw Error(ErrorCode::unavailable, fmt::format("{}: {}", what, errno_text(error)));
  };
  const std::string name = "heddle:" + options.name.substr(0, 200);
  FileDescriptor fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) fail("memfd_create", errno);
  if (const int error = files::write_all(fd.get(), image.bytes()); error != 0)
    fail("writing the library to memory", error);
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    fail("sealing the library", errno);
  void* mapped = mmap(nullptr, image.bytes().size(), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) fail("mapping the library", errno);
  const std::unique_ptr<void, Unmap> mapping(mapped, Unmap{image.bytes().size()});
  check_sum({static_cast<const std::byte*>(mapped), image.bytes().size()}, image, options);
  return fd;
}

/// The file under a descriptor number that the process will hardly reuse. Debuggers open the path
/// that a library was loaded from: by then the number is free, and another file or pipe might have
/// it.
FileDescriptor far_away(FileDescriptor fd) {
  constexpr int number_min = 512;
  FileDescriptor far(fcntl(fd.get(), F_DUPFD_CLOEXEC, number_min));
  return far ? std::move(far) : std::move(fd);
}

/// The directory of this process in /proc, for other processes too; not "self", whose meaning
/// differs by process.
std::string process_directory() {
  std::error_code error;
  const auto process = std::filesystem::read_symlink("/proc/self", error);
  return "/proc/" + (error ? std::string("self") : process.string());
}

/// Makes paths unique: dlopen treats an equal path as the same library.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> counter{0};
  // relaxed: pairs with itself; only distinctness matters, the counter publishes no data.
  return counter.fetch_add(1, std::memory_order_relaxed);
}

/// A path of the descriptor that no earlier library had, since descriptor numbers are reused. "./"
/// and "/" spell the bits of a number.
std::string unique_path(int fd) {
  std::string path = process_directory() + "/fd/";
  for (std::uint64_t n = next_number(); n != 0; n >>= 1) path += (n & 1) != 0 ? "./" : "/";
  return path + std::to_string(fd);
}

/// Why the system loads no code from `path`, whatever the file contains; empty: it does.
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

/// True if dlopen(), which failed with the text `said`, lacked memory for the library.
bool lacks_memory(std::uint64_t bytes, const std::string& said) {
  if (said.find(errno_text(ENOMEM)) != std::string::npos) return true;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return errno == ENOMEM;
  munmap(mapped, bytes);
  return false;
}

/// Throws Error(unavailable) for an obstacle in the system, exhausted if there is no memory,
/// compile_failed for a faulty library.
LibraryHandle open_library(const std::string& path, const Image& image,
                           const LoadOptions& options) {
  LibraryHandle handle = [&] {
    const std::lock_guard lock(linker_mutex);
    return LibraryHandle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  }();
  if (handle) return handle;
  const std::string said = loader_text();
  if (const std::string why = obstacle(path); !why.empty())
    throw Error(ErrorCode::unavailable, why);
  if (const std::uint64_t bytes = files::memory_bytes(image.bytes()); lacks_memory(bytes, said)) {
    throw Error(ErrorCode::exhausted,
                fmt::format("there is no memory to load unit '{:.200}', which takes {} bytes: {}",
                            options.name, bytes, said));
  }
  refuse(options, "dlopen: " + said);
}

/// Loads the library where memory files cannot be loaded (no /proc, no sealing): from a file in a
/// fresh directory of this user, checked there and removed at once. Between check and load only
/// processes of this user could change the file, and they could change this process's memory as
/// well.
LibraryHandle open_from_file(const Image& image, const LoadOptions& options,
                             const Status& obstacle) try {
  const files::TempDir directory(options.temp_dir);
  const auto path = directory.path() / fmt::format("unit-{}.so", next_number());
  files::write_file(path,
                    {reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size()});
  check_sum(files::read_file(path, image_bytes_max), image, options);
  return open_library(path.string(), image, options);
} catch (const Error& error) {
  if (error.code() != ErrorCode::unavailable) throw;
  throw Error(error.code(),
              fmt::format("cannot load unit '{:.200}', which is sound: from memory: {}; from a "
                          "temporary file: {}; mount /proc, or set HEDDLE_TEMP_DIR to a directory "
                          "that may hold code",
                          options.name, obstacle.message(), error.status().message()));
}

/// LABEL#HASH for each kernel: a kernel's symbol ends in its hash. Without a label: the symbol.
std::vector<NamedFunction> named(const std::vector<heddle_kernel_function>& functions,
                                 const Image& image, const LoadOptions& options) {
  std::vector<NamedFunction> result;
  for (std::size_t k = 0; k < functions.size(); ++k) {
    const std::string& symbol = image.kernels()[k].symbol;
    std::string name = symbol;
    if (k < options.labels.size() && !options.labels[k].empty()) {
      name = fmt::format("{:.200}#{}", options.labels[k], symbol.substr(symbol.rfind('_') + 1));
      std::ranges::replace_if(name, [](char c) { return c < ' '; }, ' ');  // a single line each
    }
    Dl_info info{};
    const ElfW(Sym)* found = nullptr;
    const bool has_size =
        dladdr1(reinterpret_cast<const void*>(functions[k]), &info,
                reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&found)), RTLD_DL_SYMENT) != 0 &&
        found != nullptr;
    if (has_size) result.push_back({functions[k], found->st_size, std::move(name)});
  }
  return result;
}

std::shared_ptr<const Module> load(const Image& image, const LoadOptions& options) {
  if (const Status status = image.check(); !status.ok()) refuse(options, status.message());
  LibraryHandle handle;
  if (!options.library_dir.empty()) {
    const std::filesystem::path path = files::replace_own_file(
        options.library_dir,
        fmt::format("{}-{:016x}.so", files::file_stem(options.name), image.sum().low),
        image.bytes(), files::dump_dir_advice);
    handle = open_library(path.string(), image, options);
  } else {
    try {
      const FileDescriptor fd = far_away(seal(image, options));
      handle = open_library(unique_path(fd.get()), image, options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      handle = open_from_file(image, options, error.status());
    }
  }
  std::vector<heddle_kernel_function> functions;
  for (const ImageKernel& kernel : image.kernels()) {
    void* symbol = dlsym(handle.get(), kernel.symbol.c_str());
    if (symbol == nullptr) refuse(options, loader_text());
    functions.push_back(reinterpret_cast<heddle_kernel_function>(symbol));
  }
  std::unique_ptr<const DebugNames> names;
  if (options.perf_map && options.library_dir.empty()) {
    const std::vector<NamedFunction> known = named(functions, image, options);
    {
      const std::lock_guard lock(linker_mutex);
      write_perf_map(known);
    }
    names = std::make_unique<const DebugNames>(known, image.bytes());
  }
  return std::make_shared<LoadedModule>(std::move(handle), std::move(functions), std::move(names));
}

}  // namespace

Status load_on_host(const Image& image, const LoadOptions& options,
                    std::shared_ptr<const Module>* module) noexcept try {
  if (image.kind() == null_image_kind) {
    *module = std::make_shared<NullModule>();
  } else if (image.kind() == host_image_kind()) {
    *module = load(image, options);
  } else {
    return Status(ErrorCode::invalid_argument, [&] {
      return fmt::format(
          "unit '{:.200}' is an image of kind '{}' (expected '{}'): compile it for "
          "this machine",
          options.name, image.kind(), host_image_kind());
    });
  }
  return {};
} catch (const Error& error) {
  return error.status();
} catch (const std::bad_alloc&) {
  return Status(ErrorCode::exhausted, "no memory to load a unit");
} catch (const std::exception& error) {
  return Status(ErrorCode::unavailable, [&error] { return std::string(error.what()); });
}

}  // namespace heddle::dev
