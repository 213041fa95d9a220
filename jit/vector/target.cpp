// See vector/target.hpp.
#include "jit/vector/target.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "files/ascii.hpp"
#include "heddle/status.hpp"

namespace heddle::jit {
namespace {

constexpr std::array isas{Isa::none,   Isa::portable,    Isa::avx2,
                          Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16};

Isa native_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") != 0) {
    if (__builtin_cpu_supports("avx512vnni") == 0) return Isa::avx512;
    return __builtin_cpu_supports("avx512bf16") != 0 ? Isa::avx512_bf16 : Isa::avx512_vnni;
  }
  if (__builtin_cpu_supports("x86-64-v3") != 0) return Isa::avx2;
#endif
  return Isa::portable;
}

Target detect() {
  Target target;
  target.isa = native_isa();
  const auto known = [](int name, std::int64_t& bytes) {
    // 0 where the system does not report a size
    if (const long found = sysconf(name); found > 0) bytes = found;
  };
  known(_SC_LEVEL1_DCACHE_SIZE, target.l1_bytes);
  known(_SC_LEVEL2_CACHE_SIZE, target.l2_bytes);
  known(_SC_LEVEL3_CACHE_SIZE, target.l3_bytes);
  return target;
}

}  // namespace

std::int64_t Target::vector_bytes() const noexcept {
  switch (isa) {
    case Isa::none:
      return 0;
    case Isa::portable:
      return 16;
    case Isa::avx2:
      return 32;
    case Isa::avx512:
    case Isa::avx512_vnni:
    case Isa::avx512_bf16:
      return 64;
  }
  return 0;
}

std::int64_t Target::vector_registers() const noexcept { return isa >= Isa::avx512 ? 32 : 16; }

std::string_view name(Isa isa) noexcept {
  switch (isa) {
    case Isa::none:
      return "none";
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_vnni:
      return "avx512_vnni";
    case Isa::avx512_bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

std::string Target::to_string() const {
  std::string text = is_gpu() ? fmt::format("sm_{}", sm) : std::string(name(isa));
  text += fmt::format(" {} {} {}", l1_bytes, l2_bytes, l3_bytes);
  if (profile == KernelProfile() && sum_bytes == sum_bytes_usual) return text;
  text += fmt::format(" {}", sum_bytes);
  for (const KernelValue& each : kernel_values) text += fmt::format(" {}", profile.*each.value);
  return text;
}

std::optional<Target> Target::parse(std::string_view text) {
  files::WordStream words{std::string(text)};
  std::string isa_name;
  Target target;
  words >> isa_name >> target.l1_bytes >> target.l2_bytes >> target.l3_bytes;
  for (const Isa isa : isas) {
    if (name(isa) == isa_name) target.isa = isa;
  }
  if (isa_name.starts_with("sm_"))
    std::from_chars(isa_name.data() + 3, isa_name.data() + isa_name.size(), target.sm);
  if (std::int64_t value = 0; words >> value) target.sum_bytes = value;
  for (const KernelValue& each : kernel_values) {
    if (std::int64_t value = 0; words >> value) target.profile.*each.value = value;
  }
  if (target.to_string() != text) return std::nullopt;
  return target;
}

void check(const KernelProfile& profile) {
  for (const auto& [called, value, most] : kernel_values) {
    if (profile.*value >= 1 && profile.*value <= most) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::kernels.{} is {} (expected 1 to {})", called,
                            profile.*value, most));
  }
}

Target gpu_target(int sm) noexcept {
  Target target;
  target.sm = sm;
  return target;
}

const Target& native_target() {
  static const Target target = detect();
  return target;
}

Target narrowed_target(std::string_view isa) {
  const Target& native = native_target();
  for (const Isa each : isas) {
    if (each == Isa::none || name(each) != isa) continue;
    if (each <= native.isa) return with_isa(native, each);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("this processor lacks the instructions '{}' (of HEDDLE_ISA or "
                            "BackendOptions::isa); it has {}",
                            isa, name(native.isa)));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("instruction set '{:.200}' (of HEDDLE_ISA or BackendOptions::isa) is "
                          "unknown (expected portable, avx2, avx512, avx512_vnni or avx512_bf16)",
                          isa));
}

Target with_isa(Target target, Isa isa) noexcept {
  target.isa = isa;
  return target;
}

}  // namespace heddle::jit
