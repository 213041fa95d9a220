// See nvrtc_library.hpp.
#include "jit/toolchain/nvrtc_library.hpp"
#include "files/descriptor.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <vector>

namespace heddle::jit {
namespace {

/// The names to search. The loader often does not search a toolkit's own folder.
constexpr std::array names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                           "/usr/local/cuda/lib64/libnvrtc.so"};
/// An nvrtcResult.
constexpr int invalid_option = 5;

struct ProgramTag;
using Program = ProgramTag*;

/// The functions of NVRTC, as declared in nvrtc.h. Each returns an nvrtcResult, which is 0 on
/// success.
struct Functions {
  int (*version)(int* major, int* minor);
  const char* (*error_text)(int result);
  int (*create)(Program* program, const char* source, const char* name, int num_headers,
                const char* const* headers, const char* const* include_names);
  int (*destroy)(Program* program);
  int (*compile)(Program program, int num_options, const char* const* options);
  int (*log_bytes)(Program program, std::size_t* bytes);
  int (*log)(Program program, char* text);
  int (*cubin_bytes)(Program program, std::size_t* bytes);
  int (*cubin)(Program program, char* bytes);
};

struct Nvrtc {
  Functions call{};
  std::string version, file;
};

/// Never closed: NVRTC may have threads.
void* open_library(const std::string& asked, std::uint32_t cuda_major, std::string& why) {
  if (!asked.empty()) {
    void* const library = ::dlopen(asked.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) why = files::loader_text();
    return library;
  }
  // The driver's own version first: a driver may refuse the output of a later NVRTC.
  const std::string first = fmt::format("libnvrtc.so.{}", cuda_major);
  if (void* const library = ::dlopen(first.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  for (const char* const name : names) {
    if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    why += fmt::format("{}{}", why.empty() ? "" : "; ", files::loader_text());
  }
  return nullptr;
}

std::unique_ptr<Nvrtc> open_nvrtc(const std::string& asked, std::uint32_t cuda_major,
                                  std::string& why) {
  void* const library = open_library(asked, cuda_major, why);
  if (library == nullptr) {
    why = fmt::format(
        "NVRTC cannot be loaded ({}); install the CUDA toolkit or the Python package "
        "nvidia-cuda-nvrtc, and set HEDDLE_NVRTC to the path of libnvrtc.so",
        why);
    return nullptr;
  }
  auto found = std::make_unique<Nvrtc>();
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr && why.empty()) why = symbol;
  };
  why.clear();
  Functions& call = found->call;
  find(call.version, "nvrtcVersion");
  find(call.error_text, "nvrtcGetErrorString");
  find(call.create, "nvrtcCreateProgram");
  find(call.destroy, "nvrtcDestroyProgram");
  find(call.compile, "nvrtcCompileProgram");
  find(call.log_bytes, "nvrtcGetProgramLogSize");
  find(call.log, "nvrtcGetProgramLog");
  find(call.cubin_bytes, "nvrtcGetCUBINSize");
  find(call.cubin, "nvrtcGetCUBIN");
  if (!why.empty()) {
    why = fmt::format("{} is no NVRTC: it lacks {}", asked.empty() ? "libnvrtc.so" : asked, why);
    return nullptr;
  }
  int major = 0, minor = 0;
  if (call.version(&major, &minor) != 0) {
    why = "NVRTC does not tell its version";
    return nullptr;
  }
  found->version = fmt::format("NVRTC {}.{}", major, minor);
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(call.compile), &info) != 0 &&
      info.dli_fname != nullptr)
    found->file = info.dli_fname;
  return found;
}

/// One program in compilation.
class Compiling {
 public:
  explicit Compiling(const Nvrtc& nvrtc) : call_(nvrtc.call) {}
  ~Compiling() {
    if (program_ != nullptr) call_.destroy(&program_);
  }
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;

  void run(const wire::NvrtcRequest& request, const std::string& name, wire::CompileReply& reply) {
    std::vector<const char*> options;
    for (const std::string& option : request.options) options.push_back(option.c_str());
    if (const int made =
            call_.create(&program_, request.source.c_str(), name.c_str(), 0, nullptr, nullptr);
        made != 0)
      return fail(made, reply);
    if (const int made = call_.compile(program_, static_cast<int>(options.size()), options.data());
        made != 0)
      return fail(made, reply);
    std::size_t bytes = 0;
    if (const int made = call_.cubin_bytes(program_, &bytes); made != 0) return fail(made, reply);
    reply.library.bytes.resize(bytes);
    if (const int made = call_.cubin(program_, reinterpret_cast<char*>(reply.library.bytes.data()));
        made != 0)
      return fail(made, reply);
    reply.library.sum = checksum(reply.library.bytes);
    reply.ok = true;
  }

 private:
  void fail(int result, wire::CompileReply& reply) const {
    reply.error =
        fmt::format("{} answered {} ({})", reply.version, result, call_.error_text(result));
    if (result == invalid_option)
      reply.error += "; it may not make code for this GPU: set HEDDLE_NVRTC to one that does";
    std::size_t bytes = 0;
    if (program_ == nullptr || call_.log_bytes(program_, &bytes) != 0 || bytes <= 1) return;
    std::string log(bytes, '\0');
    if (call_.log(program_, log.data()) == 0) reply.error += ":\n" + std::string(log.c_str());
  }

  const Functions& call_;
  Program program_ = nullptr;
};

}  // namespace

void compile_by_nvrtc(const wire::NvrtcRequest& request, const std::string& unit_name,
                      wire::CompileReply& reply) {
  // A helper serves one backend, hence one NVRTC file.
  static std::unique_ptr<Nvrtc> nvrtc;
  if (!nvrtc && !(nvrtc = open_nvrtc(request.library, request.major, reply.error))) return;
  reply.version = nvrtc->version;
  reply.file = nvrtc->file;
  if (request.source.empty()) {
    reply.ok = true;
  } else {
    Compiling(*nvrtc).run(request, unit_name, reply);
  }
}

}  // namespace heddle::jit
