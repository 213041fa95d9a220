// See cubin.hpp.
#include "fuzz/cubin.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace heddle::jit::testing {
namespace {

template <class T>
T at(std::span<const std::byte> bytes, std::size_t offset) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset)
    throw std::runtime_error("this is no CUBIN: it ends early");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// A record of `.nv.info` with a value for a symbol.
struct Info {
  std::uint8_t format, attribute;
  std::uint16_t bytes;
};
constexpr std::uint8_t with_value = 4, frame_size = 0x11, register_count = 0x2f;

void add_info(std::span<const std::byte> section, CubinUse& use) {
  for (std::size_t place = 0; place < section.size();) {
    const auto info = at<Info>(section, place);
    place += sizeof info;
    if (info.format != with_value) continue;  // the value is in the record's last field
    if (info.bytes == 2 * sizeof(std::uint32_t)) {
      const auto value = at<std::uint32_t>(section, place + sizeof(std::uint32_t));
      if (info.attribute == register_count) use.registers = std::max(use.registers, value);
      if (info.attribute == frame_size) use.frame_bytes = std::max(use.frame_bytes, value);
    }
    place += info.bytes;
  }
}

void add_code(std::span<const std::byte> section, CubinUse& use) {
  constexpr std::uint64_t global_load = 0x981, global_store = 0x986, copy_to_shared = 0xfae;
  constexpr std::size_t instruction_bytes = 16;
  for (std::size_t place = 0; place < section.size(); place += instruction_bytes) {
    const std::uint64_t operation = at<std::uint64_t>(section, place) & 0xfffU;
    const bool wide = (at<std::uint64_t>(section, place + 8) >> 9U & 7U) == 6;
    if (operation == global_load) ++(wide ? use.wide_loads : use.loads);
    if (operation == global_store) ++(wide ? use.wide_stores : use.stores);
    if (operation == copy_to_shared) ++use.copies;
  }
}

}  // namespace

CubinUse use_of(std::span<const std::byte> cubin) {
  const auto header = at<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    throw std::runtime_error("this is no CUBIN: no ELF");
  const auto section = [&](std::size_t k) {
    return at<Elf64_Shdr>(cubin, header.e_shoff + k * header.e_shentsize);
  };
  const std::size_t names = section(header.e_shstrndx).sh_offset;
  CubinUse use;
  for (std::size_t k = 0; k < header.e_shnum; ++k) {
    const Elf64_Shdr each = section(k);
    std::string name;
    for (std::size_t c = names + each.sh_name; at<char>(cubin, c) != 0; ++c)
      name += at<char>(cubin, c);
    if (name == ".nv.info") add_info(cubin.subspan(each.sh_offset, each.sh_size), use);
    if (name.starts_with(".text.")) add_code(cubin.subspan(each.sh_offset, each.sh_size), use);
    if (name.starts_with(".nv.shared."))
      use.shared_bytes = std::max(use.shared_bytes, static_cast<unsigned>(each.sh_size));
  }
  if (use.registers == 0) throw std::runtime_error("this is no CUBIN: no kernel has registers");
  return use;
}

}  // namespace heddle::jit::testing
