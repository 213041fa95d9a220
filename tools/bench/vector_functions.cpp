// See vector_functions.hpp. Compiled for this processor's widest vectors.
#include "tools/bench/vector_functions.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>

#include "heddle/status.hpp"

namespace heddle::bench {
namespace {

// By the psABI for vector functions ("x86 Vector Function ABI"): d is AVX2, e AVX-512.
#if defined(__AVX512F__)
constexpr std::size_t vector_lanes = 16;
constexpr const char* libmvec_name = "_ZGVeN16v_{}f";
constexpr const char* sleef_name = "Sleef_{}f16_u10avx512f";
#elif defined(__AVX2__)
constexpr std::size_t vector_lanes = 8;
constexpr const char* libmvec_name = "_ZGVdN8v_{}f";
constexpr const char* sleef_name = "Sleef_{}f8_u10avx2";
#else
constexpr std::size_t vector_lanes = 4;
constexpr const char* libmvec_name = "_ZGVbN4v_{}f";
constexpr const char* sleef_name = "Sleef_{}f4_u10sse2";
#endif
using Vector [[gnu::vector_size(vector_lanes * sizeof(float))]] = float;

void* find(const char* library, const std::string& symbol) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* const found = opened == nullptr ? nullptr : dlsym(opened, symbol.c_str());
  if (found != nullptr) return found;
  throw Error(ErrorCode::unavailable,
              fmt::format("there is no {} in {}: see tools/bench/rivals.txt", symbol, library));
}

}  // namespace

VectorFunction VectorFunction::libmvec(const std::string& name) {
  return VectorFunction(find("libmvec.so.1", fmt::format(fmt::runtime(libmvec_name), name)));
}

VectorFunction VectorFunction::sleef(const std::string& name) {
  return VectorFunction(find("libsleef.so.3", fmt::format(fmt::runtime(sleef_name), name)));
}

void VectorFunction::operator()(std::size_t count, const float* x, float* out) const {
  const auto function = reinterpret_cast<Vector (*)(Vector)>(function_);
  for (std::size_t k = 0; k < count; k += vector_lanes) {
    Vector value;
    std::memcpy(&value, x + k, sizeof value);
    value = function(value);
    std::memcpy(out + k, &value, sizeof value);
  }
}

}  // namespace heddle::bench
