// See files/elf.hpp.
#include "files/elf.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "heddle/kernel.h"

namespace heddle {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t machine = EM_X86_64;
constexpr std::string_view machine_kind = "elf-x86-64";
#elif defined(__aarch64__)
constexpr std::uint16_t machine = EM_AARCH64;
constexpr std::string_view machine_kind = "elf-aarch64";
#elif defined(__riscv)
constexpr std::uint16_t machine = EM_RISCV;
constexpr std::string_view machine_kind = "elf-riscv64";
#elif defined(__powerpc64__)
constexpr std::uint16_t machine = EM_PPC64;
constexpr std::string_view machine_kind = "elf-ppc64";
#else
#error "heddle's kernels are 64-bit ELF libraries; name this machine's ELF number here"
#endif

/// The library's file must be of this byte order, as the numbers in its headers are read as they
/// lie.
constexpr unsigned char byte_order =
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

using Bytes = std::span<const std::byte>;

template <class... A>
Status bad(fmt::format_string<A...> format, A&&... args) {
  return Status(ErrorCode::compile_failed, fmt::format(format, std::forward<A>(args)...));
}

/// Copies a header out of the bytes, which need not be aligned for it.
template <class T>
std::optional<T> read_at(Bytes bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Calls f(header) for each of the headers, until it says false.
template <class T, class F>
void each_header(Bytes bytes, std::uint64_t at, std::uint64_t count, const F& f) {
  for (std::uint64_t k = 0; k < count; ++k) {
    const auto header = read_at<T>(bytes, at + k * sizeof(T));
    if (!header || !f(*header)) return;
  }
}

/// The symbols that a library defines for others, by name.
class Symbols {
 public:
  /// `library`: one whose tables lie within it.
  explicit Symbols(Bytes library) : library_(library) {
    const auto file = *read_at<Elf64_Ehdr>(library, 0);
    each_header<Elf64_Shdr>(library, file.e_shoff, file.e_shnum, [&](const Elf64_Shdr& section) {
      if (section.sh_type != SHT_DYNSYM) return true;
      const auto text =
          section.sh_link < file.e_shnum
              ? read_at<Elf64_Shdr>(library, file.e_shoff + section.sh_link * sizeof(Elf64_Shdr))
              : std::nullopt;
      if (!text || text->sh_type != SHT_STRTAB) return false;
      table_ = library.subspan(section.sh_offset, section.sh_size);
      names_ = {reinterpret_cast<const char*>(library.data() + text->sh_offset), text->sh_size};
      return false;
    });
  }

  [[nodiscard]] std::optional<Elf64_Sym> find(std::string_view name) const {
    std::optional<Elf64_Sym> found;
    each_header<Elf64_Sym>(table_, 0, table_.size() / sizeof(Elf64_Sym), [&](const Elf64_Sym& s) {
      if (s.st_shndx == SHN_UNDEF || s.st_name >= names_.size()) return true;
      const std::string_view rest = names_.substr(s.st_name);
      if (rest.substr(0, rest.find('\0')) == name) found = s;
      return !found;
    });
    return found;
  }

  /// The number that a symbol stands for; nothing when it is not in the file.
  [[nodiscard]] std::optional<std::uint32_t> value_of(const Elf64_Sym& symbol) const {
    std::optional<std::uint32_t> value;
    const auto file = *read_at<Elf64_Ehdr>(library_, 0);
    each_header<Elf64_Phdr>(library_, file.e_phoff, file.e_phnum, [&](const Elf64_Phdr& segment) {
      const std::uint64_t at = symbol.st_value - segment.p_vaddr;
      if (segment.p_type != PT_LOAD || symbol.st_value < segment.p_vaddr ||
          segment.p_filesz < sizeof(std::uint32_t) || at > segment.p_filesz - sizeof(std::uint32_t))
        return true;
      value = read_at<std::uint32_t>(library_, segment.p_offset + at);
      return false;
    });
    return value;
  }

 private:
  Bytes library_;
  Bytes table_{};
  std::string_view names_{};
};

}  // namespace

std::string_view host_image_kind() noexcept { return machine_kind; }

namespace files {

Status check_library(Bytes bytes) {
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

Status check_kernels(Bytes library, const std::vector<ImageKernel>& kernels) {
  const Symbols symbols(library);
  const auto abi = symbols.find(unit_abi_symbol);
  if (!abi) return bad("it does not define {}", unit_abi_symbol);
  if (const auto value = symbols.value_of(*abi); value != HEDDLE_KERNEL_ABI) {
    return bad("its kernel ABI is {} (expected {})", value ? std::to_string(*value) : "not told",
               HEDDLE_KERNEL_ABI);
  }
  for (const ImageKernel& kernel : kernels) {
    if (!symbols.find(kernel.symbol)) return bad("it does not define kernel '{}'", kernel.symbol);
  }
  return {};
}

std::uint64_t memory_bytes(Bytes library) {
  std::uint64_t sum = 0;
  const auto header = *read_at<Elf64_Ehdr>(library, 0);
  each_header<Elf64_Phdr>(library, header.e_phoff, header.e_phnum, [&](const Elf64_Phdr& segment) {
    if (segment.p_type == PT_LOAD) sum += segment.p_memsz;
    return true;
  });
  return sum;
}

}  // namespace files
}  // namespace heddle
