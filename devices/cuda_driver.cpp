// See cuda_driver.hpp.
#include "devices/cuda_driver.hpp"
#include "files/descriptor.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <type_traits>

namespace heddle::dev::cuda {
namespace {

constexpr const char* system_driver = "libcuda.so.1";

Status unavailable(const std::string& why) {
  return Status(ErrorCode::unavailable, why + "; use cc or gccjit");
}

/// The last parameter is a CUdriverProcAddressQueryResult.
using GetAddress = Result (*)(const char* symbol, void** function, int version, std::uint64_t flags,
                              int* found);
using GetVersion = Result (*)(int* version);

Status find_functions(Driver& driver, GetAddress address_of) {
  const auto find = [&](const char* symbol, int since, auto& function) {
    void* at = nullptr;
    int found = 0;
    if (address_of(symbol, &at, driver_version_min, 0, &found) != success || at == nullptr) {
      return unavailable(
          fmt::format("the CUDA driver {} lacks {}, which drivers have since CUDA {}; it says that "
                      "it is of CUDA {}",
                      driver.file, symbol, version_text(since), version_text(driver.version)));
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(at);
    return Status();
  };
#define HEDDLE_CUDA_FIND(name, symbol, since, parameters) \
  if (const Status s = find(#symbol, since, driver.name); !s.ok()) return s;
  HEDDLE_CUDA_FUNCTIONS(HEDDLE_CUDA_FIND)
#undef HEDDLE_CUDA_FIND
  return {};
}

Status initialise(Driver& driver) {
  const Result begun = driver.init(0);
  if (begun == no_device || (begun == success && driver.device_count(&driver.devices) == success &&
                             driver.devices == 0)) {
    return unavailable(fmt::format("the CUDA driver {} finds no GPU", driver.file));
  }
  if (begun != success) {
    const Status said = driver.status(begun, "cuInit", "starting " + driver.file);
    return unavailable(std::string(said.message()));
  }
  if (driver.devices < 1)
    return unavailable(fmt::format("the CUDA driver {} does not count its GPUs", driver.file));
  return {};
}

Status open(Driver& driver) {
  std::unique_ptr<void, int (*)(void*)> library(
      ::dlopen(driver.file.c_str(), RTLD_NOW | RTLD_LOCAL), &::dlclose);
  if (!library)
    return unavailable(fmt::format("there is no CUDA driver: {}", files::loader_text()));
  const auto version_of =
      reinterpret_cast<GetVersion>(::dlsym(library.get(), "cuDriverGetVersion"));
  if (version_of == nullptr || version_of(&driver.version) != success) {
    return unavailable(
        fmt::format("{} is no CUDA driver: it does not tell its version", driver.file));
  }
  const auto address_of =
      reinterpret_cast<GetAddress>(::dlsym(library.get(), "cuGetProcAddress_v2"));
  if (driver.version < driver_version_min || address_of == nullptr) {
    return unavailable(fmt::format("the CUDA driver {} is of CUDA {}; one of {} or later is needed",
                                   driver.file, version_text(driver.version),
                                   version_text(driver_version_min)));
  }
  if (Status s = find_functions(driver, address_of); !s.ok()) return s;
  static_cast<void>(library.release());  // has threads from here on
  return initialise(driver);
}

std::mutex drivers_mutex;

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Status Driver::status(Result result, const char* function, const std::string& what) const noexcept {
  if (result == success) return {};
  const char *name = nullptr, *text = nullptr;
  if (error_name(result, &name) != success || name == nullptr) name = "an unknown error";
  if (error_text(result, &text) != success || text == nullptr) text = "it says no more";
  const ErrorCode code = result == out_of_memory ? ErrorCode::exhausted : ErrorCode::device_failed;
  return Status(code, [&] {
    return fmt::format("{}: {} answered {} ({}): {}", what, function, name, result, text);
  });
}

std::shared_ptr<const Driver> open_driver(const std::string& file, Status* why) {
  static auto& opened = *new std::map<std::string, std::shared_ptr<const Driver>>;
  const std::string path = file.empty() ? system_driver : file;
  {
    const std::lock_guard lock(drivers_mutex);
    *why = {};
    if (const auto at = opened.find(path); at != opened.end()) return at->second;
  }
  // Without the lock: a driver may start processes during initialisation. Two threads may
  // initialise at once.
  const auto driver = std::make_shared<Driver>();
  driver->file = path;
  *why = open(*driver);
  if (!why->ok()) return nullptr;
  const std::lock_guard lock(drivers_mutex);
  return opened.emplace(path, driver).first->second;
}

}  // namespace heddle::dev::cuda
