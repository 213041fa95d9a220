// See cpu_debug_names.hpp.
#include "devices/cpu_debug_names.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "scheduler/threads/process_mutex.hpp"

// gdb sets a breakpoint in the function, and then reads the descriptor.
extern "C" {
[[gnu::noinline, gnu::visibility("protected")]] void __jit_debug_register_code();
void __jit_debug_register_code() { asm volatile("" ::: "memory"); }
constinit heddle::dev::GdbDescriptor __jit_debug_descriptor{1, 0, nullptr, nullptr};
}

namespace heddle::dev {
namespace {

/// Guards the list in the descriptor. constinit: kernels may be loaded during exit.
constinit sched::ProcessMutex list_mutex;

void tell_gdb(std::uint32_t action, GdbEntry* entry) {
  __jit_debug_descriptor.action = action;
  __jit_debug_descriptor.relevant = entry;
  __jit_debug_register_code();
  __jit_debug_descriptor.action = 0;
}

/// Appends `count` values of type T at T's alignment; returns their offset.
template <class T>
std::size_t append(std::string& to, const T* from, std::size_t count) {
  to.resize((to.size() + alignof(T) - 1) / alignof(T) * alignof(T));
  const std::size_t at = to.size();
  to.append(reinterpret_cast<const char*>(from), count * sizeof(T));
  return at;
}

/// An object file without code: one section at the functions' addresses, and their symbols.
std::string object_of(const std::vector<NamedFunction>& functions,
                      std::span<const std::byte> library) {
  enum : std::uint16_t { none, text, symbols, names, sections };
  const auto address = [](const NamedFunction& f) {
    return reinterpret_cast<std::uintptr_t>(f.function);
  };
  std::uintptr_t begin = ~std::uintptr_t{0}, end = 0;
  for (const NamedFunction& f : functions) {
    begin = std::min(begin, address(f));
    end = std::max(end, address(f) + f.bytes);
  }
  std::string words{"\0.text\0.symtab\0.strtab", 23};
  std::vector<Elf64_Sym> table(1);
  for (const NamedFunction& f : functions) {
    table.push_back({static_cast<Elf64_Word>(words.size()), ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                     STV_DEFAULT, text, address(f) - begin, f.bytes});
    words += f.name;
    words += '\0';
  }
  Elf64_Ehdr header{};
  std::string object;
  append(object, &header, 1);
  Elf64_Shdr list[sections]{};
  list[text] = {1, SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, begin, 0, end - begin, 0, 0, 1, 0};
  list[symbols] = {7,
                   SHT_SYMTAB,
                   0,
                   0,
                   append(object, table.data(), table.size()),
                   table.size() * sizeof(Elf64_Sym),
                   names,
                   1,
                   alignof(Elf64_Sym),
                   sizeof(Elf64_Sym)};
  list[names] = {15,           SHT_STRTAB, 0, 0, append(object, words.data(), words.size()),
                 words.size(), 0,          0, 1, 0};
  std::memcpy(&header, library.data(), sizeof header);  // copies machine and byte order
  header.e_type = ET_REL;
  header.e_entry = header.e_phoff = 0;
  header.e_phnum = 0;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = sections;
  header.e_shstrndx = names;
  header.e_shoff = append(object, list, sections);
  std::memcpy(object.data(), &header, sizeof header);
  return object;
}

}  // namespace

struct DebugNames::Entry : GdbEntry {
  std::string file;
};

DebugNames::DebugNames(const std::vector<NamedFunction>& functions,
                       std::span<const std::byte> library)
    : entry_(std::make_unique<Entry>()) {
  entry_->file = object_of(functions, library);
  entry_->object = entry_->file.data();
  entry_->bytes = entry_->file.size();
  const std::scoped_lock lock(list_mutex);
  entry_->next = __jit_debug_descriptor.first;
  if (entry_->next != nullptr) entry_->next->previous = entry_.get();
  __jit_debug_descriptor.first = entry_.get();
  tell_gdb(1, entry_.get());
}

DebugNames::~DebugNames() {
  const std::scoped_lock lock(list_mutex);
  if (entry_->next != nullptr) entry_->next->previous = entry_->previous;
  (entry_->previous != nullptr ? entry_->previous->next : __jit_debug_descriptor.first) =
      entry_->next;
  tell_gdb(2, entry_.get());
}

}  // namespace heddle::dev
